package inspect

import "slices"

// Lengths are quantiles; 0 without documents.
type Lengths struct {
	Shortest int `json:"shortest"`
	P10      int `json:"p10"`
	Median   int `json:"median"`
	P90      int `json:"p90"`
	P99      int `json:"p99"`
	Longest  int `json:"longest"`
}

// kept bounds the number of lengths that are held.
const kept = 1 << 20

// sample keeps each length and, beyond kept, every second, fourth, ... of them.
type sample struct {
	lengths           []int
	every, seen       int
	shortest, longest int
}

func (s *sample) add(n int) {
	if s.every == 0 {
		s.every, s.shortest = 1, n
	}
	s.shortest, s.longest = min(s.shortest, n), max(s.longest, n)
	if s.seen%s.every == 0 {
		s.lengths = append(s.lengths, n)
	}
	if s.seen++; len(s.lengths) < kept {
		return
	}
	for i := range kept / 2 {
		s.lengths[i] = s.lengths[2*i]
	}
	s.lengths, s.every = s.lengths[:kept/2], 2*s.every
}

func (s *sample) quantiles() Lengths {
	if len(s.lengths) == 0 {
		return Lengths{}
	}
	slices.Sort(s.lengths)
	at := func(share float64) int { return s.lengths[int(share*float64(len(s.lengths)-1)+0.5)] }
	return Lengths{s.shortest, at(0.1), at(0.5), at(0.9), at(0.99), s.longest}
}
