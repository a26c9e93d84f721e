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

// maxSamples bounds the number of lengths that are held.
const maxSamples = 1 << 20

// lengthSample keeps each length and, beyond kept, every second, fourth, ... of them.
type lengthSample struct {
	lengths           []int
	stride, seen      int
	shortest, longest int
}

func (s *lengthSample) add(n int) {
	if s.stride == 0 {
		s.stride, s.shortest = 1, n
	}
	s.shortest, s.longest = min(s.shortest, n), max(s.longest, n)
	if s.seen%s.stride == 0 {
		s.lengths = append(s.lengths, n)
	}
	if s.seen++; len(s.lengths) < maxSamples {
		return
	}
	for i := range maxSamples / 2 {
		s.lengths[i] = s.lengths[2*i]
	}
	s.lengths, s.stride = s.lengths[:maxSamples/2], 2*s.stride
}

func (s *lengthSample) quantiles() Lengths {
	if len(s.lengths) == 0 {
		return Lengths{}
	}
	slices.Sort(s.lengths)
	at := func(share float64) int { return s.lengths[int(share*float64(len(s.lengths)-1)+0.5)] }
	return Lengths{s.shortest, at(0.1), at(0.5), at(0.9), at(0.99), s.longest}
}
