package merge

// pairHeap is a binary min-heap of rank<<32 | place.
type pairHeap []uint64

func (h *pairHeap) push(rank uint32, at int32) {
	x := uint64(rank)<<32 | uint64(uint32(at))
	s := append(*h, x)
	i := len(s) - 1
	for i > 0 && s[(i-1)/2] > x {
		s[i] = s[(i-1)/2]
		i = (i - 1) / 2
	}
	s[i] = x
	*h = s
}

func (h *pairHeap) pop() (rank uint32, at int32) {
	s := *h
	first, x := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	for i := 0; len(s) > 0; {
		c := 2*i + 1
		if c+1 < len(s) && s[c+1] < s[c] {
			c++
		}
		if c >= len(s) || s[c] >= x {
			s[i] = x
			break
		}
		s[i] = s[c]
		i = c
	}
	*h = s
	return uint32(first >> 32), int32(uint32(first))
}

// mergeByHeap merges a long word pair by pair, for any merges.
func (m *Merges) mergeByHeap(s *Scratch, dst []int32, word []byte) []int32 {
	w := s.loadBytes(word)
	s.heap = s.heap[:0]
	for i := range len(word) - 1 {
		if r := m.bytePairRank[uint32(word[i])<<8|uint32(word[i+1])]; r != none {
			s.heap.push(r, int32(i))
		}
	}
	for len(s.heap) > 0 {
		rank, p := s.heap.pop()
		a := w[p]
		if int(a.next) >= len(w) || a.symbol != m.parts[rank][0] || w[a.next].symbol != m.parts[rank][1] {
			continue // one of the two has been merged in the meantime
		}
		made := m.results[rank]
		join(w, p, made)
		a = w[p]
		if a.prev >= 0 {
			if r := m.pairs.Rank(w[a.prev].symbol, made); r != none {
				s.heap.push(r, a.prev)
			}
		}
		if int(a.next) < len(w) {
			if r := m.pairs.Rank(made, w[a.next].symbol); r != none {
				s.heap.push(r, p)
			}
		}
	}
	return s.appendIDs(dst, m.ids)
}
