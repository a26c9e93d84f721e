package report

import (
	"testing"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// The table of widths is that of the font which it names.
func TestAdvances(t *testing.T) {
	f, err := sfnt.Parse(liberationsansregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	if f.UnitsPerEm() != unitsPerEm {
		t.Fatalf("the font has %d units, the table %d", f.UnitsPerEm(), unitsPerEm)
	}
	var b sfnt.Buffer
	for i, have := range advances {
		glyph, err := f.GlyphIndex(&b, rune(' '+i))
		if err != nil {
			t.Fatal(err)
		}
		want, err := f.GlyphAdvance(&b, glyph, fixed.I(unitsPerEm), font.HintingNone)
		if err != nil {
			t.Fatal(err)
		}
		if int(have) != want.Round() {
			t.Errorf("%q is %d wide, want %d", rune(' '+i), have, want.Round())
		}
	}
	if last := ' ' + len(advances) - 1; last != '~' {
		t.Errorf("the table ends with %q", rune(last))
	}
	if a, b := textWidth("é漢"), textWidth("MM"); a < b {
		t.Errorf("characters beyond the table are %v wide, less than %v", a, b)
	}
}
