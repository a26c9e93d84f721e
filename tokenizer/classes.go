package tokenizer

import "unicode/utf8"

// class is a set of character classes as the reference's regular expressions see them. They follow Unicode 16, the
// standard library another version; hence a table of our own.
type class uint16

const (
	isLetter   class = 1 << iota // \p{L}
	isNumber                     // \p{N}
	isSpace                      // \s
	isUpper                      // \p{Lu} \p{Lt} \p{Lm} \p{Lo} \p{M}
	isLower                      // \p{Ll} \p{Lm} \p{Lo} \p{M}
	isNewline                    // \r \n
	isUnstable                   // NFC may change it, or move or join it to what is before
	isMark                       // \p{M}
	isSymbol                     // \p{P} \p{S}
	isHan                        // \p{Han}
	isKana                       // DeepSeek's ideographs and kana: U+4E00..9FA5, U+3040..30FF
	isDigit                      // what the Digits pre-tokenizer splits off: a few more than \p{N}
)

// classSets are the members of the classes, in their order.
func classSets() []runeSet {
	modifiers := inCategory("Lm").union(inCategory("Lo")).union(inCategory("M"))
	return []runeSet{
		inCategory("L"),
		inCategory("N"),
		whiteSpace(),
		inCategory("Lu").union(inCategory("Lt")).union(modifiers),
		inCategory("Ll").union(modifiers),
		newRuneSet(runeRange{'\n', '\n'}, runeRange{'\r', '\r'}),
		withFlag(unstableFlag),
		inCategory("M"),
		inCategory("P").union(inCategory("S")),
		withFlag(hanFlag),
		newRuneSet(runeRange{0x4E00, 0x9FA5}, runeRange{0x3040, 0x30FF}),
		withFlag(digitFlag),
	}
}

// classTable looks a character's classes up in two stages: a page for r>>8, in it a class for r&255. Equal pages are
// stored once.
type classTable struct {
	page  [0x1100]uint8
	class [][256]class
	ascii [utf8.RuneSelf]class
}

var classes = newClassTable(classSets())

func newClassTable(sets []runeSet) *classTable {
	all := make([]class, utf8.MaxRune+1)
	for k, set := range sets {
		for _, r := range set {
			for c := r.lo; c <= r.hi; c++ {
				all[c] |= 1 << k
			}
		}
	}
	t := &classTable{}
	seen := map[[256]class]uint8{}
	for p := range t.page {
		page := [256]class(all[p<<8:])
		id, ok := seen[page]
		if !ok {
			id = uint8(len(t.class))
			seen[page] = id
			t.class = append(t.class, page)
		}
		t.page[p] = id
	}
	copy(t.ascii[:], all)
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
	r, n := wideRune(s)
	return classes.of(r), n
}

// wideRune decodes the character that s begins with, one of at least two bytes; s is valid UTF-8.
func wideRune(s []byte) (r uint32, n int) {
	switch b := uint32(s[0]); {
	case b < 0xE0:
		return b&0x1f<<6 | uint32(s[1])&0x3f, 2
	case b < 0xF0:
		return b&0xf<<12 | uint32(s[1])&0x3f<<6 | uint32(s[2])&0x3f, 3
	default:
		return b&7<<18 | uint32(s[1])&0x3f<<12 | uint32(s[2])&0x3f<<6 | uint32(s[3])&0x3f, 4
	}
}

// run returns the end of the characters from i on that are of a class in c.
func run(s []byte, i int, c class) int {
	for i < len(s) {
		k, n := classAt(s, i)
		if k&c == 0 {
			break
		}
		i += n
	}
	return i
}

// runNot returns the end of the characters from i on that are of no class in c.
func runNot(s []byte, i int, c class) int {
	for i < len(s) {
		k, n := classAt(s, i)
		if k&c != 0 {
			break
		}
		i += n
	}
	return i
}
