package tokenizer

import "unicode/utf8"

// cuts knows the places between two bytes where a text may be cut into words that merge on their own: before a character,
// where no token that merges make lies across, and where the reference begins a word.
type cuts struct {
	at [1 << 16 / 64]uint64 // byte before<<8 | byte after
}

func (c *cuts) set(before, after int)    { c.at[before<<2|after>>6] |= 1 << (after & 63) }
func (c *cuts) remove(before, after int) { c.at[before<<2|after>>6] &^= 1 << (after & 63) }

// newCuts finds the places. made are the texts of the symbols that merges make.
func newCuts(c *characterModel, t *characters, made []string, free bool) *cuts {
	k := &cuts{}
	if free {
		whole := t.whole()
		known := func(b int) bool { return b < utf8.RuneSelf && t.ascii[b] != none }
		for before := range 256 {
			for after := range 256 {
				switch {
				case after >= 0x80 && after < 0xC0: // inside a character
				case whole, known(before) && known(after),
					// on one side of an unk only what has a token
					t.unk != none && (known(before) || known(after)):
					k.set(before, after)
				}
			}
		}
		for _, text := range made {
			for i := 1; i < len(text); i++ {
				k.remove(int(text[i-1]), int(text[i]))
			}
		}
	}
	if c.words {
		for before := range 256 {
			k.set(before, ' ')
		}
	}
	return k
}

// split writes the ends of the words of s from i on to w, until it is full or s is done. It returns their number and the
// end of the last.
func (c *cuts) split(s []byte, i int, w *wordBatch) (n, end int) {
	w.wide = true
	before := uint(s[i])
	j := i + 1
	for ; j < len(s) && n < batch-1; j++ {
		after := uint(s[j])
		w.ends[n] = int32(j)
		n += int(c.at[before<<2|after>>6] >> (after & 63) & 1)
		before = after
	}
	if j == len(s) {
		w.ends[n] = int32(j)
		n++
	}
	return n, int(w.ends[n-1])
}

// fillCuts finds the places where texts may be cut.
func (m *Model) fillCuts() {
	c := m.def.characters
	m.mark = []byte(c.mark)
	free := !m.merges.fallsBack()
	if c.words { // a word that is a token is not cut
		free = free && len(m.whole) == 0
	} else {
		m.texts, m.whole = m.whole, nil
	}
	m.cuts = newCuts(c, m.merges.characters, m.merges.text, free)
	if !free || !m.merges.characters.whole() {
		for i := range m.cross.bit {
			m.cross.bit[i] = ^uint64(0)
		}
	}
}

// cutWords encodes text of a model whose merging begins with characters.
func (e *Encoder) cutWords(dst []int32, s []byte) []int32 {
	if id, ok := e.m.texts[string(s)]; ok {
		return append(dst, id)
	}
	return e.each(e.m.cuts, dst, s)
}
