// Package figure provides the font of plots and writes them as SVG.
package figure

import (
	"bytes"
	"os"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg/vgsvg"
)

// SetFont sets the font of texts, of size points.
func SetFont(size font.Length, texts ...*font.Font) {
	for _, t := range texts {
		*t = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
}

// Write writes a canvas to a file.
func Write(canvas *vgsvg.Canvas, file string) error {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	// Arial has the same widths, and some readers lack Liberation.
	svg := bytes.ReplaceAll(b.Bytes(),
		[]byte("font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;"),
		[]byte("font-family:Liberation Sans,Arial,sans-serif;"))
	return os.WriteFile(file, svg, 0o644)
}
