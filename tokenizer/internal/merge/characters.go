package merge

import "unicode/utf8"

// Characters has the initial symbols of a word if merging starts with characters. A symbol then is a token's id.
type Characters struct {
	ascii [utf8.RuneSelf]uint32
	page  [0x1100]*[256]uint32
	space []byte      // the text that a space represents
	bytes [256]uint32 // the tokens of bytes, or none
	unk   uint32      // or none: characters without a token are dropped
	fuse  bool
}

// NewCharacters returns a table without characters. A space represents the text space; fuse makes one unk of adjacent
// ones.
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

// SetByte sets the symbol of a byte of characters that have no symbol.
func (t *Characters) SetByte(b byte, symbol uint32) { t.bytes[b] = symbol }

// SetUnknown sets the symbol of characters without a symbol whose bytes do not all have one.
func (t *Characters) SetUnknown(symbol uint32) { t.unk = symbol }

// HasUnknown reports whether such characters have a symbol. Without one they are dropped.
func (t *Characters) HasUnknown() bool { return t.unk != none }

// Set sets the symbol of a character.
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

// symbolOf returns the symbol of a character, or none.
func (t *Characters) symbolOf(r rune) uint32 {
	if r < utf8.RuneSelf {
		return t.ascii[r]
	}
	if p := t.page[r>>8]; p != nil {
		return p[r&0xff]
	}
	return none
}

// knownPrefix returns the size of the longest prefix of text that consists of characters with tokens.
func (t *Characters) knownPrefix(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if t.symbolOf(r) == none {
			return i
		}
		i += n
	}
	return len(text)
}

// appendSymbols appends the initial symbols of a word. A character without a token becomes those of its bytes if all
// have one, otherwise unk. An unk is appended before the next character that has a token, so bytes may precede it, as
// in the reference.
func (t *Characters) appendSymbols(dst []uint32, word []byte) []uint32 {
	waits := false
	for i := 0; i < len(word); {
		r, n := rune(word[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(word[i:])
		}
		if symbol := t.symbolOf(r); symbol != none {
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

// IsComplete reports whether every character is a token or has the tokens of its bytes.
func (t *Characters) IsComplete() bool {
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

// CanSplit returns a function of two adjacent bytes. It reports whether splitting a text between them does not change
// its symbols.
func (t *Characters) CanSplit() func(before, after int) bool {
	whole := t.IsComplete()
	known := func(b int) bool { return b < utf8.RuneSelf && t.ascii[b] != none }
	return func(before, after int) bool {
		// next to an unk only a character with a token may be split off
		return whole || known(before) && known(after) || t.unk != none && (known(before) || known(after))
	}
}
