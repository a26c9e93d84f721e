// Package merge encodes one word by byte pair encoding: the merge of the lowest rank is done first, of equal ranks
// the leftmost, until none applies. Several algorithms give the same ids: many short words in parallel (Few), a long
// word from left to right without merging if that is known to be equivalent, rank by rank, or with a heap.
//
// It also determines which merges of a file are ever done, and the merges that are equivalent to the ranks of a rank
// file.
package merge

import (
	"fmt"

	"loaderd/tokenizer/internal/pairs"
)

// Merges is a byte pair encoding: the merge of the lowest rank is done first, of equal ranks the leftmost, until none
// applies.
type Merges struct {
	bytePairRank []uint32 // left byte<<8 | right byte -> rank, or none
	pairs        pairs.Table
	parts        [][2]uint32 // rank -> the pair of symbols that it joins
	results      []uint32    // rank -> the symbol that it makes
	ids          []int32     // symbol -> token id; -1: the byte has no token
	text         []string    // symbol -> its bytes

	characters      *Characters // merging starts with characters; a symbol is then a token's id
	splitsAtUnknown bool        // with characters: nothing merges with what represents a character without a token

	// isOrdered reports that each merge makes a symbol that no earlier merge makes, of symbols that exist before it. Then
	// a merge never makes a pair possible that should have been merged earlier, so whole ranks can be merged at a time.
	isOrdered bool

	// isSequential reports that the merge of rank r makes symbol 256+r, which is the token of that id.
	isSequential bool

	allReachable bool               // see SetAllReachable
	selfTokens   *selfMergingTokens // what Themselves has found, for PrepareGreedy
	// greedy returns another encoder with the same ids, created on first use. It returns nil if the ids are not known to
	// be the same. It is nil before PrepareGreedy.
	greedy func() *greedyMerges
}

// New returns an encoding without merges, with room for n. Words start with bytes, which are the symbols 0..255.
func New(n int) *Merges {
	m := &Merges{
		bytePairRank: make([]uint32, 1<<16),
		pairs:        pairs.New(n),
		parts:        make([][2]uint32, 0, n),
		results:      make([]uint32, 0, n),
		ids:          make([]int32, 256, 256+n),
		text:         make([]string, 256, 256+n),
		isOrdered:    true,
		isSequential: true,
	}
	for i := range m.bytePairRank {
		m.bytePairRank[i] = none
	}
	for b := range 256 {
		m.ids[b], m.text[b] = -1, string([]byte{byte(b)})
	}
	return m
}

// SetByte sets the token of a byte.
func (m *Merges) SetByte(b byte, id int32) { m.ids[b] = id }

// Characters returns the initial symbols of words if merging starts with characters, else nil.
func (m *Merges) Characters() *Characters { return m.characters }

// Texts returns the texts of the symbols that merges make, and those of bytes if words start with bytes. Callers must
// not change them.
func (m *Merges) Texts() []string { return m.text }

// Symbol adds the token of some bytes that a merge will make.
func (m *Merges) Symbol(text string, id int32) uint32 {
	m.ids, m.text = append(m.ids, id), append(m.text, text)
	return uint32(len(m.ids) - 1)
}

// Join appends the merge of the next rank. fresh reports that it makes a symbol that did not exist before.
func (m *Merges) Join(left, right, made uint32, fresh bool) error {
	rank := uint32(len(m.parts))
	if rank > MaxID || made > MaxID {
		return fmt.Errorf("merge %d: more than %d merges or tokens", rank, MaxID)
	}
	m.parts, m.results = append(m.parts, [2]uint32{left, right}), append(m.results, made)
	m.pairs.Put(left, right, rank)
	if left < 256 && right < 256 {
		m.bytePairRank[left<<8|right] = rank
	}
	m.isOrdered = m.isOrdered && fresh
	m.isSequential = m.isSequential && made == 256+rank && m.ids[made] == int32(made)
	return nil
}

// Encode appends the ids of a word.
func (m *Merges) Encode(s *Scratch, dst []int32, word []byte) []int32 {
	if m.characters != nil {
		return m.encodeCharacters(s, dst, word)
	}
	if m.greedy != nil && len(word) > shortMax {
		if g := m.greedy(); g != nil {
			if ids, n := g.encode(&s.greedy, dst, word); n == len(word) {
				return ids
			}
		}
	}
	if len(word) > shortMax {
		if m.isOrdered {
			return m.mergeByRank(s, dst, word)
		}
		return m.mergeByHeap(s, dst, word)
	}
	w := &s.short[0]
	m.startBytes(w, word)
	m.MergeShortWords(&s.ShortWords, s.short[:])
	return m.AppendShortWord(dst, w)
}

// A symbol is a piece of a word during merging. If words start with bytes, 0..255 are the bytes, and larger symbols
// are tokens that merges make. If words start with characters, a symbol is a token's id.
const (
	none       = pairs.None // no symbol, or no rank
	symbolBits = pairs.SymbolBits
	symbolMask = pairs.SymbolMask
)

// MaxID bounds ids and symbols: both must fit symbolBits, and a hostile file must not reserve unbounded memory.
const MaxID = 1<<symbolBits - 2
