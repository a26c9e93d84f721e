package report

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colors of the page's style sheet, which knows a light and a dark shade of each. The values only stand for their names.
var (
	ink    = color.RGBA{1, 1, 1, 255} // text
	muted  = color.RGBA{1, 1, 2, 255} // text beside the point
	grid   = color.RGBA{1, 1, 3, 255} // lines behind the data
	mark   = color.RGBA{1, 1, 4, 255} // data
	accent = color.RGBA{1, 1, 5, 255} // the data that matters
	second = color.RGBA{1, 1, 6, 255} // data beside the first
	paper  = color.RGBA{1, 1, 7, 255} // background
)

var inStyleSheet = strings.NewReplacer(
	"#010101", "var(--ink)", "#010102", "var(--muted)", "#010103", "var(--grid)", "#010104", "var(--mark)",
	"#010105", "var(--accent)", "#010106", "var(--second)", "#010107", "var(--paper)",
)

// textSize is the size of all text in a drawing, in its own units: a drawing as wide as its frame has text as large as the page's.
const textSize = 12

var textFont = font.Font{Typeface: "Liberation", Variant: "Sans", Size: textSize}

// canvas is an SVG canvas that remembers how wide each text is meant to be.
type canvas struct {
	*vgsvg.Canvas
	widths []vg.Length
}

func (c *canvas) FillString(f font.Face, at vg.Point, s string) {
	c.widths = append(c.widths, f.Width(s))
	c.Canvas.FillString(f, at, s)
}

// render returns what paint draws as an SVG element. Whatever font the reader has, its text takes the room that was meant for it.
func render(width, height vg.Length, about string, paint func(draw.Canvas)) (template.HTML, error) {
	c := &canvas{Canvas: vgsvg.New(width, height)}
	paint(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", fmt.Errorf("draw plot: %w", err)
	}
	_, body, _ := strings.Cut(b.String(), `xmlns:xlink="http://www.w3.org/1999/xlink">`)
	parts := strings.Split(inStyleSheet.Replace(body), "<text ")
	out := parts[0]
	for i, part := range parts[1:] {
		out += fmt.Sprintf(`<text textLength="%.1f" lengthAdjust="spacingAndGlyphs" `, c.widths[i].Points()) + part
	}
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, width.Points(), height.Points(), html.EscapeString(about)) +
		out), nil
}

// newPlot returns an empty plot in the page's style.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding = 0
		a.LineStyle.Color = grid
		a.LineStyle.Width = 1
		a.Tick.LineStyle.Color = grid
		a.Tick.LineStyle.Width = 1
		a.Tick.Length = 5
		a.Tick.Label.Font, a.Tick.Label.Color = textFont, muted
		a.Label.TextStyle.Font, a.Label.TextStyle.Color = textFont, muted
	}
	return p
}

func gridLines(vertical, horizontal bool) *plotter.Grid {
	g := &plotter.Grid{}
	line := draw.LineStyle{Color: grid, Width: 1}
	if vertical {
		g.Vertical = line
	}
	if horizontal {
		g.Horizontal = line
	}
	return g
}

// paintFunc is a plotter that is a function.
type paintFunc func(draw.Canvas, *plot.Plot)

func (f paintFunc) Plot(c draw.Canvas, p *plot.Plot) { f(c, p) }

// write writes a text whose alignment is x from 0 (behind the point) over -0.5 to -1 (before it), centered in height.
func write(c draw.Canvas, x, y vg.Length, align float64, col color.Color, s string) {
	sty := draw.TextStyle{Font: textFont, Color: col, XAlign: draw.XAlignment(align), YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	c.FillText(sty, vg.Point{X: x, Y: y + 1}, s) // digits have no descender
}

func textWidth(s string) vg.Length {
	sty := draw.TextStyle{Font: textFont, Handler: plot.DefaultTextHandler}
	return sty.Width(s)
}

// box fills a rectangle.
func box(c draw.Canvas, col color.Color, x0, y0, x1, y1 vg.Length) {
	c.FillPolygon(col, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
}

func line(c draw.Canvas, col color.Color, width, x0, y0, x1, y1 vg.Length) {
	c.StrokeLine2(draw.LineStyle{Color: col, Width: width}, x0, y0, x1, y1)
}

func dot(c draw.Canvas, col color.Color, radius, x, y vg.Length) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: col, Radius: radius, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
}

// ring draws a circle that is not filled.
func ring(c draw.Canvas, col color.Color, radius, x, y vg.Length) {
	dot(c, col, radius, x, y)
	dot(c, paper, radius-1.75, x, y)
}

// logFromZero is a logarithmic scale with a place for zero at its left end.
type logFromZero struct{ least float64 }

// zeroGap is the share of the axis between zero and the least positive value.
const zeroGap = 0.1

func (s logFromZero) Normalize(_, most, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if most <= s.least {
		return 1
	}
	return zeroGap + (1-zeroGap)*math.Log(max(x, s.least)/s.least)/math.Log(most/s.least)
}

// decades returns the powers of ten from least to most.
func decades(least, most float64, text func(float64) string) (ticks []plot.Tick) {
	for e := math.Ceil(math.Log10(least) - 1e-9); e <= math.Log10(most)+1e-9; e++ {
		v := math.Pow10(int(e))
		ticks = append(ticks, plot.Tick{Value: v, Label: text(v)})
	}
	return ticks
}

// doublings returns the powers of two from least to most.
func doublings(least, most float64) (ticks []plot.Tick) {
	for e := math.Ceil(math.Log2(least) - 1e-9); e <= math.Log2(most)+1e-9; e++ {
		ticks = append(ticks, plot.Tick{Value: math.Exp2(e), Label: length(int(math.Exp2(e)))})
	}
	return ticks
}

// steps returns round values from zero to most, about so many.
func steps(most float64, about int, text func(float64) string) (ticks []plot.Tick) {
	unit := math.Pow10(int(math.Floor(math.Log10(most / float64(max(about, 1))))))
	step := 10 * unit
	for _, f := range []float64{1, 2, 5} {
		if most/(f*unit) <= float64(about) {
			step = f * unit
			break
		}
	}
	for i := 0; float64(i)*step <= most*1.0000001; i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: text(float64(i) * step)})
	}
	return ticks
}

// fit returns as many of the ticks as have room for their text, evenly chosen from the last on; a zero in front stays.
func fit(ticks []plot.Tick, at func(float64) vg.Length) []plot.Tick {
	zero := len(ticks) > 0 && ticks[0].Value == 0
	for every := 1; every < len(ticks); every++ {
		var some []plot.Tick
		for i, t := range ticks {
			if (len(ticks)-1-i)%every == 0 || i == 0 && zero {
				some = append(some, t)
			}
		}
		if zero && len(some) > 2 && overlap(some[0], some[1], at) {
			some = append(some[:1], some[2:]...)
		}
		if !overlaps(some, at) {
			return some
		}
	}
	return ticks[max(len(ticks)-1, 0):]
}

func overlaps(ticks []plot.Tick, at func(float64) vg.Length) bool {
	for i := 1; i < len(ticks); i++ {
		if overlap(ticks[i-1], ticks[i], at) {
			return true
		}
	}
	return false
}

func overlap(a, b plot.Tick, at func(float64) vg.Length) bool {
	return at(a.Value)+textWidth(a.Label)/2+10 > at(b.Value)-textWidth(b.Label)/2
}
