package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// readCharacterMerges reads merges that begin with characters.
func (d *definition) readCharacterMerges(vocab []vocabEntry, list []mergeEntry) error {
	c := d.characters
	t := newCharacters(c, d.vocabulary)
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
	if c.hasUnk && t.unk == none && !t.whole() {
		return fmt.Errorf("model unk_token %q is not in the vocabulary, and characters without a token need it", c.unk)
	}
	m := &merges{
		characters: t,
		pairs:      newPairTable(len(list)),
		parts:      make([][2]uint32, 0, len(list)),
		made:       make([]uint32, 0, len(list)),
		ids:        make([]int32, size),
	}
	d.merges = m
	for i := range m.ids {
		m.ids[i] = int32(i)
	}
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
		m.parts, m.made = append(m.parts, [2]uint32{left, right}), append(m.made, made)
		m.pairs.put(left, right, uint32(i))
		isMade[made] = true
	}
	for text, id := range d.tokens {
		if isMade[id] {
			m.text = append(m.text, text)
		}
	}
	m.apart = t.whole() && !m.fallsBack()
	return nil
}

// fallsBack reports whether some merge joins what stands for a character that has no token of its own. Then a symbol's
// text does not tell where it lies.
func (m *merges) fallsBack() bool {
	stands := map[uint32]bool{}
	for _, symbol := range m.characters.bytes {
		stands[symbol] = true
	}
	stands[m.characters.unk] = true
	for _, p := range m.parts {
		if stands[p[0]] || stands[p[1]] {
			return true
		}
	}
	return false
}
