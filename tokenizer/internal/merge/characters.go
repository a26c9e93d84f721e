package merge

import "unicode/utf8"

// Characters says with which symbols a word begins that merges from characters. There a symbol is a token's id.
type Characters struct {
	ascii [utf8.RuneSelf]uint32
	page  [0x1100]*[256]uint32
	space []byte      // what a space stands for
	bytes [256]uint32 // the tokens of bytes, or none
	unk   uint32      // or none: characters without a token are dropped
	fuse  bool
}

// NewCharacters knows no character yet. A space stands for another text; fuse makes one unk of neighbours.
func NewCharacters(space string, fuse bool) *Characters {
	t := &Characters{space: []byte(space), unk: none, fuse: fuse}
	for i := range t.ascii {
		t.ascii[i] = none
	}
	for b := range t.bytes {
		t.bytes[b] = none
	}
	return t
}

// SetByte gives a byte of characters that have no symbol one.
func (t *Characters) SetByte(b byte, symbol uint32) { t.bytes[b] = symbol }

// SetUnknown gives characters a symbol of which not all bytes have one either.
func (t *Characters) SetUnknown(symbol uint32) { t.unk = symbol }

// HasUnknown tells whether such characters have a symbol. Without one they are dropped.
func (t *Characters) HasUnknown() bool { return t.unk != none }

// Set gives a character its symbol.
func (t *Characters) Set(r rune, symbol uint32) {
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
func (t *Characters) of(r rune) uint32 {
	if r < utf8.RuneSelf {
		return t.ascii[r]
	}
	if p := t.page[r>>8]; p != nil {
		return p[r&0xff]
	}
	return none
}

// known is the size of the characters with tokens that a text begins with.
func (t *Characters) known(text []byte) int {
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
func (t *Characters) start(dst []uint32, word []byte) []uint32 {
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

func (t *Characters) hasBytes(char []byte) bool {
	for _, b := range char {
		if t.bytes[b] == none {
			return false
		}
	}
	return true
}

// Whole reports whether every character is a token or has the tokens of its bytes.
func (t *Characters) Whole() bool {
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

// Parts tells of two bytes whether the symbols of a text are those of its two sides where it is cut between them.
func (t *Characters) Parts() func(before, after int) bool {
	whole := t.Whole()
	known := func(b int) bool { return b < utf8.RuneSelf && t.ascii[b] != none }
	return func(before, after int) bool {
		// on one side of an unk only what has a token
		return whole || known(before) && known(after) || t.unk != none && (known(before) || known(after))
	}
}
