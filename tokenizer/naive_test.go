package tokenizer

import (
	"loaderd/tokenizer/internal/naive"
	"loaderd/tokenizer/internal/pairs"
)

// The naive encoder is the definition written down: words by trying every way to match the pattern, merges by looking at
// all pairs again after each. It shares no fast path with the real one.

// naiveIDs encodes valid UTF-8 without added tokens.
func naiveIDs(m *Model, text []byte) []int32 {
	var ids []int32
	for _, word := range naive.Words(m.def.family.Name, string(text)) {
		ids = append(ids, naiveWord(m, word)...)
	}
	return ids
}

// naiveWord merges the lowest rank first, of equal ones the leftmost.
func naiveWord(m *Model, word string) []int32 {
	if id, ok := m.def.tokens[word]; ok && m.def.wholeWords {
		return []int32{id}
	}
	rank := map[[2]uint32]uint32{}
	for r, p := range m.def.merges.parts {
		rank[p] = uint32(r)
	}
	var symbols []uint32
	for _, b := range []byte(word) {
		symbols = append(symbols, uint32(b))
	}
	for {
		best, at := pairs.None, -1
		for i := 0; i+1 < len(symbols); i++ {
			if r, ok := rank[[2]uint32{symbols[i], symbols[i+1]}]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		symbols = append(append(symbols[:at:at], m.def.merges.made[best]), symbols[at+2:]...)
	}
	var ids []int32
	for _, s := range symbols {
		ids = append(ids, m.def.merges.ids[s])
	}
	return ids
}
