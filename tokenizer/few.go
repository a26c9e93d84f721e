package tokenizer

import "math/bits"

// fewSymbols is the scratch space of merging a short word. A symbol stays at the place where it began; the pair of it and
// the next one has the rank of their merge above the place of the symbol, so that of all pairs the least goes first.
type fewSymbols struct {
	symbol [shortMax]uint32
	pair   [shortMax]uint32
}

const (
	// shortMax is the longest word, in symbols, for which looking at all pairs after each merge is the fastest way.
	shortMax  = 48
	placeBits = 6
	noPair    = none &^ (1<<placeBits - 1) // and above
)

// joinFew merges the first n symbols, whose pairs are set but for the last one's, and returns the places of those that are
// left, a bit each.
func (m *merges) joinFew(w *fewSymbols, n int) (left uint64) {
	left = 1<<n - 1
	pairs := w.pair[:(n+3)&^3]
	for i := max(n, 1) - 1; i < len(pairs); i++ {
		pairs[i] = none
	}
	for {
		a, b := none, none
		for i := 0; i+3 < len(pairs); i += 4 { // no branch depends on what is there
			a, b = min(a, pairs[i], pairs[i+2]), min(b, pairs[i+1], pairs[i+3])
		}
		best := min(a, b)
		if best >= noPair {
			return left
		}
		at := int(best & (1<<placeBits - 1))
		made := m.made[best>>placeBits]
		behind := left >> at & (left>>at - 1) // the bits above that of at
		next := behind & -behind              // is taken
		w.pair[at+bits.TrailingZeros64(next)] = none
		left &^= next << at
		w.symbol[at], w.pair[at] = made, none
		if behind &= behind - 1; behind != 0 {
			w.pair[at] = m.pairs.rank(made, w.symbol[at+bits.TrailingZeros64(behind)])<<placeBits | uint32(at)
		}
		if before := left & (1<<at - 1); before != 0 {
			p := bits.Len64(before) - 1
			w.pair[p] = m.pairs.rank(w.symbol[p], made)<<placeBits | uint32(p)
		}
	}
}

// appendFew appends the ids of the symbols at some places.
func (m *merges) appendFew(dst []int32, w *fewSymbols, places uint64) []int32 {
	for ; places != 0; places &= places - 1 {
		dst = append(dst, m.ids[w.symbol[bits.TrailingZeros64(places)]])
	}
	return dst
}
