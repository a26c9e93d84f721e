package tokenizer

import "math/bits"

// fewSymbols is a short word while it is merged. A symbol stays at the place where it began; the pair of it and the next
// one has the rank of their merge above the place of the symbol, so that of all pairs the least goes first.
type fewSymbols struct {
	symbol [1 << placeBits]uint32
	pair   [shortMax]uint32
	size   int
	left   uint64 // the places where symbols are, a bit each

	at           int    // the place of the last merge
	before       int    // that of the symbol before, or -1
	next, behind uint64 // the keys of the pair of the two, and of that with the symbol behind
}

const (
	// shortMax is the longest word, in symbols, for which looking at all pairs after each merge is the fastest way.
	shortMax  = 48
	placeBits = 6
	noPair    = none &^ (1<<placeBits - 1) // and above
)

// begin makes size symbols, whose pairs are set but for the last one's, a word to merge.
func (w *fewSymbols) begin(size int) {
	w.size, w.left = size, 1<<size-1
	for i := max(size, 1) - 1; i < (size+3)&^3; i++ {
		w.pair[i] = none
	}
}

// beginBytes makes the bytes of a word the symbols.
func (m *merges) beginBytes(w *fewSymbols, word []byte) {
	prev := uint32(word[0])
	w.symbol[0] = prev
	for i := 1; i < len(word); i++ {
		c := uint32(word[i])
		w.symbol[i] = c
		w.pair[i-1] = m.two[(prev<<8|c)&0xffff]<<placeBits | uint32(i-1)
		prev = c
	}
	w.begin(len(word))
}

// joinFew merges at most lanes words. It takes a step in each before the next step in any: a step needs two places of a
// large table, which are read for all words at once.
func (m *merges) joinFew(s *longScratch, words []*fewSymbols) {
	table := m.pairs.slot
	for n := len(words); n > 0; {
		for k := 0; k < n; {
			if w := words[k]; m.joinNext(w) {
				s.home[k&(lanes-1)] = [2]uint32{m.pairs.first(w.next), m.pairs.first(w.behind)}
				k++
			} else {
				n--
				words[k], words[n] = words[n], w
			}
		}
		var touched uint64
		for _, h := range s.home[:n] { // nothing else is in this loop, so that many places are waited for at once
			touched |= table[h[0]&uint32(len(table)-1)] | table[h[1]&uint32(len(table)-1)]
		}
		s.touched = touched
		for _, w := range words[:n] {
			w.pair[w.at] = m.pairs.find(w.behind)<<placeBits | uint32(w.at)
			if w.before >= 0 {
				w.pair[w.before] = m.pairs.find(w.next)<<placeBits | uint32(w.before)
			}
		}
	}
}

// joinNext makes the next merge of a word; false if there is none.
func (m *merges) joinNext(w *fewSymbols) bool {
	a, b := none, none
	pairs := w.pair[:(w.size+3)&^3]
	for i := 0; i+3 < len(pairs); i += 4 { // no branch depends on what is there
		a, b = min(a, pairs[i], pairs[i+2]), min(b, pairs[i+1], pairs[i+3])
	}
	best := min(a, b)
	if best >= noPair {
		return false
	}
	at := int(best & (1<<placeBits - 1))
	made := best>>placeBits + 256
	if !m.inOrder {
		made = m.made[best>>placeBits]
	}
	behind := w.left >> at
	behind &= behind - 1 // the symbols behind the one at that place
	taken := bits.TrailingZeros64(behind)
	w.pair[at+taken] = none
	w.left &^= 1 << (at + taken)
	w.symbol[at] = made
	w.at, w.behind = at, noKey
	if behind &= behind - 1; behind != 0 {
		w.behind = m.pairs.maybe.key(made, w.symbol[(at+bits.TrailingZeros64(behind))&(1<<placeBits-1)])
	}
	w.before, w.next = bits.Len64(w.left&(1<<at-1))-1, noKey
	if w.before >= 0 {
		w.next = m.pairs.maybe.key(w.symbol[w.before&(1<<placeBits-1)], made)
	}
	return true
}

// appendFew appends the ids of the symbols that are left.
func (m *merges) appendFew(dst []int32, w *fewSymbols) []int32 {
	for left := w.left; left != 0; left &= left - 1 {
		symbol := w.symbol[bits.TrailingZeros64(left)]
		id := int32(symbol)
		if symbol < 256 || !m.inOrder {
			id = m.ids[symbol]
		}
		dst = append(dst, id)
	}
	return dst
}
