package ucd

import "unicode/utf8"

// Class is a set of character classes as defined by the reference's regular expressions. They follow Unicode 16, and
// the standard library another version, so this package has its own table.
type Class uint16

// Classes of characters.
const (
	IsLetter      Class = 1 << iota // \p{L}
	IsNumber                        // \p{N}
	IsSpace                         // \s
	IsUpper                         // \p{Lu} \p{Lt} \p{Lm} \p{Lo} \p{M}
	IsLower                         // \p{Ll} \p{Lm} \p{Lo} \p{M}
	IsUnstable                      // NFC may change it, or move or join it to preceding text
	IsMark                          // \p{M}
	IsHan                           // \p{Han}
	IsDigit                         // split off by the Digits pre-tokenizer: a few more than \p{N}
	IsPunctuation                   // split off by the Punctuation pre-tokenizer
	IsControl                       // removed by clean_text of BertNormalizer
	IsAccent                        // removed by strip_accents of BertNormalizer
	IsStripped                      // removed by StripAccents
	IsWord                          // \w of Rust: see RustWordCharacters
)

// classSets returns the members of the classes, in their order.
func classSets() []Set {
	modifiers := InCategory("Lm").Union(InCategory("Lo")).Union(InCategory("M"))
	return []Set{
		InCategory("L"),
		InCategory("N"),
		WhiteSpace(),
		InCategory("Lu").Union(InCategory("Lt")).Union(modifiers),
		InCategory("Ll").Union(modifiers),
		withFlag(unstableFlag),
		InCategory("M"),
		Han(),
		Digits(),
		Punctuation(),
		withFlag(controlFlag),
		withFlag(accentFlag),
		withFlag(markFlag),
		RustWordCharacters(),
	}
}

// classTable has a character's classes in two stages: a page for r>>8, in it a class for r&255. Equal pages are
// stored once.
type classTable struct {
	page  [0x1100]uint8
	class [][256]Class
	ascii [utf8.RuneSelf]Class
}

var classes = newClassTable(classSets())

func newClassTable(sets []Set) *classTable {
	all := make([]Class, utf8.MaxRune+1)
	for k, set := range sets {
		for _, r := range set {
			for c := r.Lo; c <= r.Hi; c++ {
				all[c] |= 1 << k
			}
		}
	}
	t := &classTable{}
	seen := map[[256]Class]uint8{}
	for p := range t.page {
		page := [256]Class(all[p<<8:])
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

func (t *classTable) classOf(r uint32) Class { return t.class[t.page[r>>8]][r&0xff] }

// ClassOf returns the classes of a character.
func ClassOf(r rune) Class { return classes.classOf(uint32(r)) }

// classAt returns the classes and the size in bytes of the character at s[i]; s is valid UTF-8.
func classAt(s []byte, i int) (Class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return classes.ascii[b], 1
	}
	return ClassAtWide(s[i:])
}

// ClassAtWide returns the classes and the size in bytes of the character at the beginning of s, which has at least
// two bytes; s is valid UTF-8.
func ClassAtWide(s []byte) (Class, int) {
	r, n := wideRune(s)
	return classes.classOf(r), n
}

// wideRune decodes the character at the beginning of s, which has at least two bytes; s is valid UTF-8.
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

// EndOfClass returns the end of the characters from i on that are of a class in c.
func EndOfClass(s []byte, i int, c Class) int {
	for i < len(s) {
		k, n := classAt(s, i)
		if k&c == 0 {
			break
		}
		i += n
	}
	return i
}

// EndOfOther returns the end of the characters from i on that are of no class in c.
func EndOfOther(s []byte, i int, c Class) int {
	for i < len(s) {
		k, n := classAt(s, i)
		if k&c != 0 {
			break
		}
		i += n
	}
	return i
}
