package charsmap

import (
	"sync"
	"unicode/utf8"
)

// graphemeKind is what a character does to graphemes (Unicode Standard Annex 29), and flags of conjuncts.
type graphemeKind uint8

const (
	otherKind graphemeKind = iota
	controlKind
	crKind
	lfKind
	extendKind
	zwjKind
	spacingKind
	prependKind
	hangulL
	hangulV
	hangulT
	hangulLV
	hangulLVT
	consonantKind
	pictureKind

	kindMask       = 15
	linkerFlag     = 16
	conjunctExtend = 32
)

type graphemeRange struct {
	first, last rune
	kind        graphemeKind
}

// graphemeTable has the kinds in two stages: a page for r>>8, in it the kind for r&255.
type graphemeTable struct {
	page  [0x1100]uint8
	pages [][256]graphemeKind
}

var graphemes = sync.OnceValue(func() *graphemeTable {
	t := &graphemeTable{pages: make([][256]graphemeKind, 1)}
	for _, x := range graphemeRanges {
		for r := x.first; r <= x.last; {
			page := r >> 8
			if r&0xFF == 0 && x.last-r >= 0xFF && t.page[page] == 0 { // a page of one kind
				t.page[page] = t.uniformPage(x.kind)
				r += 0x100
				continue
			}
			if t.page[page] == 0 {
				t.page[page] = uint8(len(t.pages))
				t.pages = append(t.pages, [256]graphemeKind{})
			}
			t.pages[t.page[page]][r&0xFF] = x.kind
			r++
		}
	}
	return t
})

// uniformPage returns the page on which all characters have a kind.
func (t *graphemeTable) uniformPage(kind graphemeKind) uint8 {
	var page [256]graphemeKind
	for i := range page {
		page[i] = kind
	}
	for i, p := range t.pages {
		if p == page {
			return uint8(i)
		}
	}
	t.pages = append(t.pages, page)
	return uint8(len(t.pages) - 1)
}

func (t *graphemeTable) kindOf(r rune) graphemeKind { return t.pages[t.page[r>>8]][r&0xFF] }

// graphemeEnd returns the end of the grapheme that starts at s[i], which is valid UTF-8.
func graphemeEnd(s []byte, i int) int {
	t := graphemes()
	r, n := utf8.DecodeRune(s[i:])
	before := t.kindOf(r)
	afterConsonant := before&kindMask == consonantKind // only linkers and extenders of conjuncts since
	linked := false                                    // with a linker among them
	afterPicture := before&kindMask == pictureKind     // only extenders since
	for i += n; i < len(s); i += n {
		r, n = utf8.DecodeRune(s[i:])
		kind := t.kindOf(r)
		switch {
		case joins(before&kindMask, kind&kindMask):
		case kind&kindMask == consonantKind && afterConsonant && linked:
		case kind&kindMask == pictureKind && before&kindMask == zwjKind && afterPicture:
		default:
			return i
		}
		linked = linked && kind&(linkerFlag|conjunctExtend) != 0 || kind&linkerFlag != 0
		afterConsonant = kind&kindMask == consonantKind || afterConsonant && kind&(linkerFlag|conjunctExtend) != 0
		afterPicture = kind&kindMask == pictureKind ||
			afterPicture && (kind&kindMask == extendKind || kind&kindMask == zwjKind)
		before = kind
	}
	return i
}

// joins reports whether no grapheme ends between two characters, in any text.
func joins(before, after graphemeKind) bool {
	if before == crKind {
		return after == lfKind
	}
	if before == controlKind || before == lfKind {
		return false
	}
	switch after {
	case controlKind, crKind, lfKind:
		return false
	case extendKind, zwjKind, spacingKind:
		return true
	case hangulL, hangulLV, hangulLVT:
		return before == hangulL || before == prependKind
	case hangulV:
		return before == hangulL || before == hangulV || before == hangulLV || before == prependKind
	case hangulT:
		return before == hangulV || before == hangulT || before == hangulLV || before == hangulLVT || before == prependKind
	}
	return before == prependKind
}
