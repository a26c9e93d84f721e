package definition

import (
	"fmt"
	"unicode/utf8"

	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/merge"
)

// readCharacterMerges reads merges that begin with characters.
func (d *Definition) readCharacterMerges(vocab []format.Entry, list []merge.Rule) error {
	c := d.Characters
	t := d.newCharacters()
	symbols := make(map[string]uint32, len(vocab))
	size := 0
	for _, v := range vocab {
		symbols[v.Token] = uint32(v.ID)
		size = max(size, int(v.ID)+1)
	}
	for text, id := range d.Tokens {
		if r, n := utf8.DecodeRuneInString(text); n == len(text) {
			t.Set(r, uint32(id))
		}
	}
	if c.hasUnk && !t.HasUnknown() && !t.Whole() {
		return fmt.Errorf("model unk_token %q is not in the vocabulary, and characters without a token need it", c.unk)
	}
	m := merge.NewFromCharacters(t, size, len(list))
	d.Merges = m
	isMade := make([]bool, size)
	var both []byte
	for i, x := range list {
		left, okL := symbols[x.Left]
		right, okR := symbols[x.Right]
		both = append(append(both[:0], x.Left...), x.Right...)
		made, okM := symbols[string(both)]
		if !okL || !okR || !okM {
			return fmt.Errorf("model merges: merge %d %s: its parts and its result must be in the vocabulary", i, x)
		}
		m.JoinSymbols(left, right, made)
		isMade[made] = true
	}
	var texts []string
	for text, id := range d.Tokens {
		if isMade[id] {
			texts = append(texts, text)
		}
	}
	m.SetMade(texts)
	return nil
}

// newCharacters knows the tokens of bytes and of what has none, but no character yet.
func (d *Definition) newCharacters() *merge.Characters {
	c := d.Characters
	space := " "
	if c.Mark != "" {
		space = c.Mark
	}
	t := merge.NewCharacters(space, c.fuse)
	for b := range 256 {
		if v, ok := d.vocabulary(fmt.Sprintf("<0x%02X>", b)); ok && c.bytes {
			t.SetByte(byte(b), uint32(v))
		}
	}
	if v, ok := d.vocabulary(c.unk); ok && c.hasUnk {
		t.SetUnknown(uint32(v))
	}
	return t
}
