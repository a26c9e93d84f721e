package packonline

import "math/bits"

// bitset is a set of small numbers that finds the smallest member from a given number on in O(log64 n): each level has one bit for
// every word of the level below that is not zero. It does the work of the segment tree of the paper's appendix B.
type bitset struct{ levels [][]uint64 }

// newBitset returns an empty set of numbers 0 ... n-1.
func newBitset(n int) bitset {
	var s bitset
	for {
		n = (n + 63) / 64
		s.levels = append(s.levels, make([]uint64, n))
		if n == 1 {
			return s
		}
	}
}

// size returns n.
func (s *bitset) size() int { return 64 * len(s.levels[0]) }

func (s *bitset) add(x int32) {
	for _, words := range s.levels {
		w := &words[x>>6]
		before := *w
		*w |= 1 << (x & 63)
		if before != 0 {
			return
		}
		x >>= 6
	}
}

func (s *bitset) remove(x int32) {
	for _, words := range s.levels {
		w := &words[x>>6]
		*w &^= 1 << (x & 63)
		if *w != 0 {
			return
		}
		x >>= 6
	}
}

func (s *bitset) has(x int32) bool { return s.levels[0][x>>6]>>(x&63)&1 != 0 }

// from returns the smallest member that is at least x, or none.
func (s *bitset) from(x int32) int32 {
	for k, words := range s.levels {
		i := int(x >> 6)
		if i >= len(words) {
			return none
		}
		if w := words[i] >> (x & 63); w != 0 {
			x += int32(bits.TrailingZeros64(w))
			for k--; k >= 0; k-- {
				x = x<<6 + int32(bits.TrailingZeros64(s.levels[k][x]))
			}
			return x
		}
		x = x>>6 + 1 // behind this word, one level up
	}
	return none
}
