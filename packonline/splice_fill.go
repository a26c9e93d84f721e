package packonline

import (
	"cmp"
	"slices"

	"loaderd/packonline/similarity"
)

// exactFiller chooses related pieces that fill room exactly.
type exactFiller struct {
	bestOfLength  []int32 // by length: the most related candidate
	roundOfLength []int64 // by length: round in which best was set
	rounds        int64
	chosen        [3]int32
	count         int     // of chosen
	bestValue     int64   // sum of score times length of chosen
	fitting       []int32 // candidates that fit, by length
}

func newExactFiller(longest int32) exactFiller {
	return exactFiller{bestOfLength: make([]int32, longest+1), roundOfLength: make([]int64, longest+1)}
}

// candidateList is a list of related pieces of a stock.
type candidateList struct {
	candidates []similarity.Candidate
	stock      *indexedPool
}

func (a candidateList) length(i int32) int32 { return a.stock.items[a.candidates[i].Slot].length }

// value returns score times length.
func (a candidateList) value(i int32) int64 { return int64(a.candidates[i].Score) * int64(a.length(i)) }

// chooseExact returns the indices of one, two or (if necessary) three answers that have room tokens together: those
// with the greatest sum of score times length.
func (f *exactFiller) chooseExact(answers []similarity.Candidate, s *indexedPool, room int32) []int32 {
	a := candidateList{answers, s}
	f.bestValue, f.count = -1, 0
	f.indexCandidates(a, room)
	if i, ok := f.bestCandidate(room); ok {
		f.offer(a.value(i), i)
	}
	for k := range answers {
		i := int32(k)
		if j, ok := f.bestCandidate(room - a.length(i)); ok && j != i {
			f.offer(a.value(i)+a.value(j), i, j)
		}
	}
	if f.count == 0 {
		f.chooseThree(a, room)
	}
	return f.chosen[:f.count]
}

// chooseThree chooses among triples of which two are among the most related answers.
func (f *exactFiller) chooseThree(a candidateList, room int32) {
	for k := range a.candidates[:min(len(a.candidates), tripleCandidates)] {
		i := int32(k)
		left := room - a.length(i)
		if left <= 0 {
			continue
		}
		for j := range i {
			if m, ok := f.bestCandidate(left - a.length(j)); ok && m != i && m != j {
				f.offer(a.value(i)+a.value(j)+a.value(m), i, j, m)
			}
		}
	}
}

// indexCandidates indexes the answers that fit into room for found.
func (f *exactFiller) indexCandidates(a candidateList, room int32) {
	f.rounds++
	for k := range a.candidates {
		i := int32(k)
		if n := a.length(i); n <= room && f.roundOfLength[n] != f.rounds {
			f.roundOfLength[n], f.bestOfLength[n] = f.rounds, i
		}
	}
}

// bestCandidate returns the most related answer of the given length.
func (f *exactFiller) bestCandidate(n int32) (int32, bool) {
	if n <= 0 || f.roundOfLength[n] != f.rounds {
		return 0, false
	}
	return f.bestOfLength[n], true
}

// offer replaces the choice if the value of the given answers is greater.
func (f *exactFiller) offer(value int64, answers ...int32) {
	if value > f.bestValue {
		f.bestValue, f.count = value, copy(f.chosen[:], answers)
	}
}

// chooseNearest returns the indices of at most three answers that leave the least room, and that room; none if none
// fits. Of equal room, those with the greatest sum of score times length are returned.
func (f *exactFiller) chooseNearest(answers []similarity.Candidate, s *indexedPool,
	room int32) (chosen []int32, left int32) {
	a := candidateList{answers, s}
	f.fitting = f.fitting[:0]
	for k := range answers {
		if i := int32(k); a.length(i) <= room && len(f.fitting) < nearestCandidates {
			f.fitting = append(f.fitting, i)
		}
	}
	// of equally long ones the most related stays first
	slices.SortStableFunc(f.fitting, func(i, j int32) int { return cmp.Compare(a.length(i), a.length(j)) })
	f.bestValue, f.count = -1, 0
	left = room
	take := func(rest int32, chosen ...int32) {
		if rest > left {
			return
		}
		var value int64
		for _, i := range chosen {
			value += a.value(i)
		}
		if rest < left {
			left, f.bestValue = rest, -1
		}
		f.offer(value, chosen...)
	}
	for at, i := range f.fitting {
		rest := room - a.length(i)
		take(rest, i)
		for low, high := at+1, len(f.fitting)-1; low <= high; {
			j, k := f.fitting[low], f.fitting[high]
			if a.length(k) > rest {
				high--
				continue
			}
			take(rest-a.length(k), i, k)
			switch both := a.length(j) + a.length(k); {
			case low == high || both > rest:
				high--
			default:
				take(rest-both, i, j, k)
				low++
			}
		}
	}
	return f.chosen[:f.count], left
}
