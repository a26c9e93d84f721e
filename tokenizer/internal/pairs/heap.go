package pairs

// Heap is a binary min-heap of rank<<32 | place.
type Heap []uint64

// Push adds a pair that has a rank, at a place.
func (h *Heap) Push(rank uint32, at int32) {
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

// Pop removes the pair of the lowest rank, the first one of several.
func (h *Heap) Pop() (rank uint32, at int32) {
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
