package merge

import (
	"math/bits"

	"loaderd/tokenizer/internal/pairs"
)

// ShortWord is a short word during merging. A symbol stays at the place where it starts, the first at place 1; noSymbol
// precedes the first and follows the last. The pair of a symbol and the next one has the rank of their merge in the
// bits above the place of the symbol. So the minimum of all pairs is the next merge.
type ShortWord struct {
	symbol   [1 << placeBits]uint32
	pair     [1 << placeBits]uint32
	size     int
	occupied uint64 // a bit per place that has a symbol, noSymbol included
}

const (
	// shortMax is the longest word, in symbols, for which examining all pairs after each merge is the fastest algorithm.
	shortMax  = 48
	placeBits = 6
	placeMask = 1<<placeBits - 1
	noPair    = none &^ placeMask // minimum value without a pair
	noSymbol  = symbolMask        // above MaxID: it merges with nothing
)

var noPairs = func() (p [16]uint32) {
	for i := range p {
		p[i] = none
	}
	return p
}()

// reset prepares for size symbols, at most shortMax and possibly none, without pairs.
func (w *ShortWord) reset(size int) {
	for i := 0; i < max(size, 1); i += len(noPairs) {
		*(*[len(noPairs)]uint32)(w.pair[i:]) = noPairs
	}
	w.symbol[0], w.symbol[(size+1)&placeMask] = noSymbol, noSymbol
	w.size, w.occupied = size, 2<<(size+1)-1
}

// startBytes sets the symbols to the bytes of a word.
func (m *Merges) startBytes(w *ShortWord, word []byte) {
	w.reset(len(word))
	prev := uint32(word[0])
	w.symbol[1] = prev
	for i := 1; i < len(word); i++ {
		c := uint32(word[i])
		w.symbol[(i+1)&placeMask] = c
		w.pair[i&placeMask] = m.bytePairRank[(prev<<8|c)&0xffff]<<placeBits | uint32(i)
		prev = c
	}
}

// minPair returns the minimum of all pairs.
func (w *ShortWord) minPair() uint32 {
	p := (*[16]uint32)(w.pair[:])
	a, b := min(p[0], p[1], p[2], p[3]), min(p[4], p[5], p[6], p[7])
	c, d := min(p[8], p[9], p[10], p[11]), min(p[12], p[13], p[14], p[15])
	for i := 16; i < w.size; i += 16 {
		p = (*[16]uint32)(w.pair[i&placeMask:])
		a, b = min(a, p[0], p[1], p[2], p[3]), min(b, p[4], p[5], p[6], p[7])
		c, d = min(c, p[8], p[9], p[10], p[11]), min(d, p[12], p[13], p[14], p[15])
	}
	return min(a, b, c, d)
}

// shortWordScratch is the scratch space of MergeShortWords.
type shortWordScratch struct {
	fresh   [2 * Lanes]uint64
	touched uint64 // prevents the compiler from removing the loads
}

// MergeShortWords merges at most Lanes words. It advances all words by one step before the next step of any. A step
// reads two places of large tables, and the reads of all words proceed in parallel. Their content is unpredictable, so
// few branches depend on it.
func (m *Merges) MergeShortWords(s *shortWordScratch, words []ShortWord) {
	var open [Lanes]uint8 // words that may have more merges
	for k := range words {
		open[k] = uint8(k)
	}
	table, maybe := m.pairs.Slots, &m.pairs.Filter
	for n := len(words); n > 0; {
		for k := 0; k < n; {
			word := open[k&(Lanes-1)]
			w := &words[word]
			best := w.minPair()
			if best >= noPair {
				n--
				open[k&(Lanes-1)] = open[n&(Lanes-1)]
				continue
			}
			at := best & placeMask
			made := best>>placeBits + 256
			if !m.isSequential {
				made = m.results[best>>placeBits]
			}
			behind := w.occupied &^ (2<<at - 1)
			taken := bits.TrailingZeros64(behind) & placeMask
			next := bits.TrailingZeros64(behind&(behind-1)) & placeMask
			before := (bits.Len64(w.occupied&(1<<at-1)) - 1) & placeMask
			w.occupied &^= 1 << taken
			w.symbol[at] = made
			w.pair[before], w.pair[at], w.pair[taken] = none, none, none

			// the new pairs: the pair, the word, the place
			name := uint64(word) << placeBits
			s.fresh[2*k&(2*Lanes-1)] = pairs.Key(w.symbol[before], made)<<(placeBits+laneBits) | name | uint64(before)
			s.fresh[(2*k+1)&(2*Lanes-1)] = pairs.Key(made, w.symbol[next])<<(placeBits+laneBits) | name | uint64(at)
			k++
		}
		fresh := 0 // those that may have a merge
		for _, v := range s.fresh[:2*n] {
			s.fresh[fresh&(2*Lanes-1)] = v
			fresh += maybe.BitOf(v >> (placeBits + laneBits))
		}
		var touched uint64
		for _, v := range s.fresh[:fresh] { // the loop does nothing else, so that many reads proceed in parallel
			touched |= table[m.pairs.FirstSlot(v>>(placeBits+laneBits))&uint64(len(table)-1)]
		}
		s.touched = touched
		for _, v := range s.fresh[:fresh] {
			w := &words[v>>placeBits&(Lanes-1)]
			w.pair[v&placeMask] = m.pairs.RankOfKey(v>>(placeBits+laneBits))<<placeBits | uint32(v&placeMask)
		}
	}
}

// AppendShortWord appends the ids of the remaining symbols.
func (m *Merges) AppendShortWord(dst []int32, w *ShortWord) []int32 {
	for left := w.occupied & (2<<w.size - 2); left != 0; left &= left - 1 {
		symbol := w.symbol[bits.TrailingZeros64(left)&placeMask]
		id := int32(symbol)
		if symbol < 256 || !m.isSequential {
			id = m.ids[symbol]
		}
		dst = append(dst, id)
	}
	return dst
}

const (
	laneBits = 5
	// Lanes is the number of words that are merged in parallel.
	Lanes = 1 << laneBits
)
