package merge

// mergeByHeap merges a long word pair by pair, for any merges.
func (m *Merges) mergeByHeap(s *Scratch, dst []int32, word []byte) []int32 {
	w := s.loadBytes(word)
	s.heap = s.heap[:0]
	for i := range len(word) - 1 {
		if r := m.bytePairRank[uint32(word[i])<<8|uint32(word[i+1])]; r != none {
			s.heap.Push(r, int32(i))
		}
	}
	for len(s.heap) > 0 {
		rank, p := s.heap.Pop()
		a := w[p]
		if int(a.next) >= len(w) || a.symbol != m.parts[rank][0] || w[a.next].symbol != m.parts[rank][1] {
			continue // one of the two has been merged in the meantime
		}
		made := m.results[rank]
		join(w, p, made)
		a = w[p]
		if a.prev >= 0 {
			if r := m.pairs.Rank(w[a.prev].symbol, made); r != none {
				s.heap.Push(r, a.prev)
			}
		}
		if int(a.next) < len(w) {
			if r := m.pairs.Rank(made, w[a.next].symbol); r != none {
				s.heap.Push(r, p)
			}
		}
	}
	return s.appendIDs(dst, m.ids)
}
