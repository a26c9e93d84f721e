package tokenizer

import "unicode/utf8"

//go:generate python3 internal/gen/tables.py

// class is a set of character classes as the reference's regular expressions see them. They follow Unicode 16, the
// standard library another version; hence a table of our own.
type class uint8

const (
	isLetter   class = 1 << iota // \p{L}
	isNumber                     // \p{N}
	isSpace                      // \s
	isUpper                      // \p{Lu} \p{Lt} \p{Lm} \p{Lo} \p{M}
	isLower                      // \p{Ll} \p{Lm} \p{Lo} \p{M}
	isNewline                    // \r \n
	isUnstable                   // NFC may change it, or move or join it to what is before
)

// classRange gives the classes of the characters from lo to hi.
type classRange struct {
	lo, hi rune
	class  class
}

// classTable looks a character's classes up in two stages: a page for r>>8, in it a class for r&255. Equal pages are
// stored once.
type classTable struct {
	page  [0x1100]uint8
	class [][256]class
	ascii [utf8.RuneSelf]class
}

var classes = newClassTable(classRanges[:])

func newClassTable(ranges []classRange) *classTable {
	t := &classTable{class: make([][256]class, 1, 160)}
	seen := map[[256]class]uint8{t.class[0]: 0}
	for p, k := 0, 0; p < len(t.page) && k < len(ranges); p++ {
		var page [256]class
		first, last := rune(p)<<8, rune(p)<<8|0xff
		for ; k < len(ranges) && ranges[k].lo <= last; k++ {
			for r := max(ranges[k].lo, first); r <= min(ranges[k].hi, last); r++ {
				page[r&0xff] = ranges[k].class
			}
			if ranges[k].hi > last {
				break
			}
		}
		id, ok := seen[page]
		if !ok {
			id = uint8(len(t.class))
			seen[page] = id
			t.class = append(t.class, page)
		}
		t.page[p] = id
	}
	copy(t.ascii[:], t.class[t.page[0]][:])
	return t
}

func (t *classTable) of(r uint32) class { return t.class[t.page[r>>8]][r&0xff] }

// classAt returns the classes and the size in bytes of the character at s[i]; s is valid UTF-8.
func classAt(s []byte, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return classes.ascii[b], 1
	}
	return classAtWide(s[i:])
}

func classAtWide(s []byte) (class, int) {
	switch b := uint32(s[0]); {
	case b < 0xE0:
		return classes.of(b&0x1f<<6 | uint32(s[1])&0x3f), 2
	case b < 0xF0:
		return classes.of(b&0xf<<12 | uint32(s[1])&0x3f<<6 | uint32(s[2])&0x3f), 3
	default:
		return classes.of(b&7<<18 | uint32(s[1])&0x3f<<12 | uint32(s[2])&0x3f<<6 | uint32(s[3])&0x3f), 4
	}
}
