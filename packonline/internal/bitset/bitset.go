// Package bitset implements sets of small numbers.
package bitset

import "math/bits"

// None is returned if a set has no such number.
const None = -1

// Set is a set of small numbers that finds the smallest member from a given number on in O(log64 n). Each level has
// one bit for every word of the level below that is not zero. It replaces the segment tree of the paper's appendix B.
type Set struct {
	// Levels are the bits of the numbers, then the bits for the words of Levels[0], and so on. Callers must not modify
	// them.
	Levels [][]uint64
}

// New returns an empty set of numbers 0 ... n-1.
func New(n int) Set {
	var s Set
	for {
		n = (n + 63) / 64
		s.Levels = append(s.Levels, make([]uint64, n))
		if n == 1 {
			return s
		}
	}
}

// Size returns n, rounded up to a multiple of 64.
func (s *Set) Size() int { return 64 * len(s.Levels[0]) }

// Add adds x.
func (s *Set) Add(x int32) {
	for _, words := range s.Levels {
		w := &words[x>>6]
		before := *w
		*w |= 1 << (x & 63)
		if before != 0 {
			return
		}
		x >>= 6
	}
}

// Remove removes x.
func (s *Set) Remove(x int32) {
	for _, words := range s.Levels {
		w := &words[x>>6]
		*w &^= 1 << (x & 63)
		if *w != 0 {
			return
		}
		x >>= 6
	}
}

// Has reports whether x is in the set.
func (s *Set) Has(x int32) bool { return s.Levels[0][x>>6]>>(x&63)&1 != 0 }

// From returns the smallest member that is at least x, or None.
func (s *Set) From(x int32) int32 {
	for k, words := range s.Levels {
		i := int(x >> 6)
		if i >= len(words) {
			return None
		}
		if w := words[i] >> (x & 63); w != 0 {
			x += int32(bits.TrailingZeros64(w))
			for k--; k >= 0; k-- {
				x = x<<6 + int32(bits.TrailingZeros64(s.Levels[k][x]))
			}
			return x
		}
		x = x>>6 + 1 // after this word, one level up
	}
	return None
}
