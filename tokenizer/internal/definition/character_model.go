package definition

import (
	"fmt"
	"unicode/utf8"

	"loaderd/tokenizer/internal/merge"
)

// readCharacterMerges reads merges that start with characters.
func (d *Definition) readCharacterMerges(steps []merge.Step) error {
	c := d.Characters
	t := d.newCharacters()
	for id, text := range d.TokensByID() {
		if r, n := utf8.DecodeRuneInString(text); n > 0 && n == len(text) {
			t.Set(r, uint32(id))
		}
	}
	if c.hasUnknown && !t.HasUnknown() && !t.IsComplete() {
		return fmt.Errorf("model unk_token %q is not in the vocabulary, and characters without a token need it",
			c.unknownToken)
	}
	size := len(d.TokensByID())
	m := merge.NewFromCharacters(t, size, len(steps))
	d.Merges = m
	isMade := make([]bool, size)
	id := func(place uint32) uint32 { return uint32(d.Entries[place].ID) }
	for _, x := range steps {
		made := id(x.Made)
		m.JoinSymbols(id(x.Left), id(x.Right), made)
		isMade[made] = true
	}
	var texts []string
	for id, text := range d.TokensByID() {
		if text != "" && isMade[id] {
			texts = append(texts, text)
		}
	}
	m.SetResultTexts(texts)
	return nil
}

// newCharacters returns the tokens of bytes and of unknown characters, and no other characters yet.
func (d *Definition) newCharacters() *merge.Characters {
	c := d.Characters
	space := " "
	if c.Mark != "" {
		space = c.Mark
	}
	t := merge.NewCharacters(space, c.fusesUnknown)
	for b := range 256 {
		if v, ok := d.idOf(fmt.Sprintf("<0x%02X>", b)); ok && c.byteFallback {
			t.SetByte(byte(b), uint32(v))
		}
	}
	if v, ok := d.idOf(c.unknownToken); ok && c.hasUnknown {
		t.SetUnknown(uint32(v))
	}
	return t
}
