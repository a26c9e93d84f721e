package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// characters says with which symbols a word begins that merges from characters. There a symbol is a token's id.
type characters struct {
	ascii [utf8.RuneSelf]uint32
	page  [0x1100]*[256]uint32
	space []byte      // what a space stands for
	bytes [256]uint32 // the tokens of bytes, or none
	unk   uint32      // or none: characters without a token are dropped
	fuse  bool
}

func newCharacters(c *characterModel, id func(entry string) (int32, bool)) *characters {
	t := &characters{space: []byte(" "), unk: none, fuse: c.fuse}
	if c.mark != "" {
		t.space = []byte(c.mark)
	}
	for i := range t.ascii {
		t.ascii[i] = none
	}
	for b := range t.bytes {
		t.bytes[b] = none
		if v, ok := id(fmt.Sprintf("<0x%02X>", b)); ok && c.bytes {
			t.bytes[b] = uint32(v)
		}
	}
	if v, ok := id(c.unk); ok && c.hasUnk {
		t.unk = uint32(v)
	}
	return t
}

// set gives a character its symbol.
func (t *characters) set(r rune, symbol uint32) {
	if r < utf8.RuneSelf {
		t.ascii[r] = symbol
		return
	}
	if t.page[r>>8] == nil {
		t.page[r>>8] = new([256]uint32)
		for i := range t.page[r>>8] {
			t.page[r>>8][i] = none
		}
	}
	t.page[r>>8][r&0xff] = symbol
}

// of is the symbol of a character, or none.
func (t *characters) of(r rune) uint32 {
	if r < utf8.RuneSelf {
		return t.ascii[r]
	}
	if p := t.page[r>>8]; p != nil {
		return p[r&0xff]
	}
	return none
}

// known is the size of the characters with tokens that a text begins with.
func (t *characters) known(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if t.of(r) == none {
			return i
		}
		i += n
	}
	return len(text)
}

// start appends the symbols that a word begins with. A character without a token becomes those of its bytes if all have
// one, else unk. An unk waits for the next character that has a token, so bytes get before it: as in the reference.
func (t *characters) start(dst []uint32, word []byte) []uint32 {
	waits := false
	for i := 0; i < len(word); {
		r, n := rune(word[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(word[i:])
		}
		if symbol := t.of(r); symbol != none {
			if waits {
				dst = append(dst, t.unk)
				waits = false
			}
			dst = append(dst, symbol)
			i += n
			continue
		}
		char := word[i : i+n]
		if r == ' ' {
			char = t.space
		}
		i += n
		if t.hasBytes(char) {
			for _, b := range char {
				dst = append(dst, t.bytes[b])
			}
			continue
		}
		if t.unk == none {
			continue
		}
		if waits && !t.fuse {
			dst = append(dst, t.unk)
		}
		waits = true
	}
	if waits {
		dst = append(dst, t.unk)
	}
	return dst
}

func (t *characters) hasBytes(char []byte) bool {
	for _, b := range char {
		if t.bytes[b] == none {
			return false
		}
	}
	return true
}

// whole reports whether every character is a token or has the tokens of its bytes.
func (t *characters) whole() bool {
	for r := range rune(utf8.RuneSelf) {
		char := []byte{byte(r)}
		if r == ' ' {
			char = t.space
		}
		if t.ascii[r] == none && !t.hasBytes(char) {
			return false
		}
	}
	for b := 0x80; b < 0xF5; b++ {
		if t.bytes[b] == none && b != 0xC0 && b != 0xC1 {
			return false
		}
	}
	return true
}
