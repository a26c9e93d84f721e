package related

import "slices"

// selection keeps the k best of the candidates that are offered, the worst of them at the root of a heap. The order is total, so the
// order of the offers does not matter.
type selection struct {
	x    *Index
	k    int
	list []Candidate
}

// compare orders candidates, better ones first.
func (s *selection) compare(a, b Candidate) int {
	switch {
	case a.Score != b.Score:
		return int(b.Score) - int(a.Score)
	case s.x.entries[a.Slot].seq < s.x.entries[b.Slot].seq:
		return -1
	default:
		return 1
	}
}

// least is the score that is needed to be kept.
func (s *selection) least() int64 {
	if len(s.list) < s.k {
		return 0
	}
	return int64(s.list[0].Score)
}

func (s *selection) offer(c Candidate) {
	if len(s.list) < s.k {
		s.list = append(s.list, c)
		if len(s.list) == s.k {
			for i := s.k/2 - 1; i >= 0; i-- {
				s.sink(i)
			}
		}
		return
	}
	if c.Score >= s.list[0].Score && s.compare(c, s.list[0]) < 0 {
		s.list[0] = c
		s.sink(0)
	}
}

func (s *selection) sink(i int) {
	for {
		worse := 2*i + 1
		if worse >= len(s.list) {
			return
		}
		if worse+1 < len(s.list) && s.compare(s.list[worse], s.list[worse+1]) < 0 {
			worse++
		}
		if s.compare(s.list[i], s.list[worse]) > 0 {
			return
		}
		s.list[i], s.list[worse] = s.list[worse], s.list[i]
		i = worse
	}
}

func (s *selection) sorted() []Candidate {
	slices.SortFunc(s.list, s.compare)
	return s.list
}
