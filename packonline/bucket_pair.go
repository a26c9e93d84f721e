package packonline

import "math/bits"

// searchWords bounds a search for two lengths (unit: words of 64 lengths). 128 words are half of a row of 16,384.
const searchWords = 256

// hasLength reports whether a piece of the given length is buffered.
func (s *indexedPool) hasLength(length int32) bool {
	return length > 0 && int(length) < len(s.queues) && s.lengths.Has(length)
}

// longestAtMost returns the greatest length in use that is at most n, or none.
func (s *indexedPool) longestAtMost(n int32) int32 {
	if n <= 0 {
		return none
	}
	n = min(n, int32(len(s.queues)-1))
	for k, words := range s.lengths.Levels {
		if w := words[n>>6] << (63 - n&63); w != 0 {
			n -= int32(bits.LeadingZeros64(w))
			for k--; k >= 0; k-- {
				n = n<<6 + int32(63-bits.LeadingZeros64(s.lengths.Levels[k][n]))
			}
			return n
		}
		if n = n>>6 - 1; n < 0 { // before this word, one level up
			return none
		}
	}
	return none
}

// findPair finds two buffered pieces that have sum tokens together. It returns the length of the shorter one, the
// longest possible one between least and most, or none.
//
// A word of the set of lengths is compared with the 64 complementary lengths in one operation: the same set, shifted
// and reversed.
func (s *indexedPool) findPair(sum, least, most int32) int32 {
	least, most = max(least, 1, sum-s.longestAtMost(sum)), min(most, sum/2)
	words := s.lengths.Levels[0]
	s.spendCredit(1)
	for range searchWords {
		s.spendCredit(1)
		if s.isOutOfCredit() {
			return none
		}
		if most = s.longestAtMost(most); most < least {
			return none
		}
		i := most >> 6
		hits := words[i] & bits.Reverse64(s.lengthBits(sum-i<<6-63))
		hits = hits << (63 - most&63) >> (63 - most&63)
		for hits != 0 {
			n := i<<6 + int32(63-bits.LeadingZeros64(hits))
			if n < least {
				return none
			}
			if 2*n < sum || s.counts[n] > 1 {
				return n
			}
			hits &^= 1 << (n & 63)
		}
		most = i<<6 - 1
	}
	return none
}

// lengthBits returns the set of lengths in use among the 64 lengths from n on. n may be negative, above -64.
func (s *indexedPool) lengthBits(n int32) uint64 {
	words := s.lengths.Levels[0]
	if n < 0 {
		return words[0] << -n
	}
	i, shift := int(n>>6), n&63
	if i >= len(words) {
		return 0
	}
	w := words[i] >> shift
	if shift > 0 && i+1 < len(words) {
		w |= words[i+1] << (64 - shift)
	}
	return w
}
