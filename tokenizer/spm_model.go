package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// readCharacterMerges reads merges that begin with characters.
func (d *definition) readCharacterMerges(vocab []vocabEntry, list []mergeRule) error {
	c := d.characters
	t := d.newCharacters()
	symbols := make(map[string]uint32, len(vocab))
	size := 0
	for _, v := range vocab {
		symbols[v.token] = uint32(v.id)
		size = max(size, int(v.id)+1)
	}
	for text, id := range d.tokens {
		if r, n := utf8.DecodeRuneInString(text); n == len(text) {
			t.set(r, uint32(id))
		}
	}
	if c.hasUnk && !t.hasUnknown() && !t.whole() {
		return fmt.Errorf("model unk_token %q is not in the vocabulary, and characters without a token need it", c.unk)
	}
	m := newCharacterMerges(t, size, len(list))
	d.merges = m
	isMade := make([]bool, size)
	var both []byte
	for i, x := range list {
		left, okL := symbols[x.left]
		right, okR := symbols[x.right]
		both = append(append(both[:0], x.left...), x.right...)
		made, okM := symbols[string(both)]
		if !okL || !okR || !okM {
			return fmt.Errorf("model merges: merge %d %s: its parts and its result must be in the vocabulary", i, x)
		}
		m.joinSymbols(left, right, made)
		isMade[made] = true
	}
	var texts []string
	for text, id := range d.tokens {
		if isMade[id] {
			texts = append(texts, text)
		}
	}
	m.setMade(texts)
	return nil
}

// newCharacters knows the tokens of bytes and of what has none, but no character yet.
func (d *definition) newCharacters() *characters {
	c := d.characters
	space := " "
	if c.mark != "" {
		space = c.mark
	}
	t := newCharacters(space, c.fuse)
	for b := range 256 {
		if v, ok := d.vocabulary(fmt.Sprintf("<0x%02X>", b)); ok && c.bytes {
			t.setByte(byte(b), uint32(v))
		}
	}
	if v, ok := d.vocabulary(c.unk); ok && c.hasUnk {
		t.setUnknown(uint32(v))
	}
	return t
}
