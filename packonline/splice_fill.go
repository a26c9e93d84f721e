package packonline

import (
	"cmp"
	"slices"

	"loaderd/packonline/similarity"
)

// filling chooses related pieces that fill room exactly.
type filling struct {
	best   []int32 // by length: the most related candidate
	round  []int64 // by length: round in which best was set
	rounds int64
	chosen [3]int32
	count  int     // of chosen
	most   int64   // sum of score times length of chosen
	short  []int32 // candidates that fit, by length
}

func newFilling(longest int32) filling {
	return filling{best: make([]int32, longest+1), round: make([]int64, longest+1)}
}

// answered is a list of related pieces of a stock.
type answered struct {
	answers []similarity.Candidate
	stock   *stock
}

func (a answered) length(i int32) int32 { return a.stock.items[a.answers[i].Slot].length }

// value returns score times length.
func (a answered) value(i int32) int64 { return int64(a.answers[i].Score) * int64(a.length(i)) }

// choose returns the indices of one, two or (if necessary) three answers that have room tokens together: those with
// the greatest sum of score times length.
func (f *filling) choose(answers []similarity.Candidate, s *stock, room int32) []int32 {
	a := answered{answers, s}
	f.most, f.count = -1, 0
	f.index(a, room)
	if i, ok := f.found(room); ok {
		f.offer(a.value(i), i)
	}
	for k := range answers {
		i := int32(k)
		if j, ok := f.found(room - a.length(i)); ok && j != i {
			f.offer(a.value(i)+a.value(j), i, j)
		}
	}
	if f.count == 0 {
		f.chooseThree(a, room)
	}
	return f.chosen[:f.count]
}

// chooseThree chooses among triples of which two are among the most related answers.
func (f *filling) chooseThree(a answered, room int32) {
	for k := range a.answers[:min(len(a.answers), combined)] {
		i := int32(k)
		left := room - a.length(i)
		if left <= 0 {
			continue
		}
		for j := range i {
			if m, ok := f.found(left - a.length(j)); ok && m != i && m != j {
				f.offer(a.value(i)+a.value(j)+a.value(m), i, j, m)
			}
		}
	}
}

// index indexes the answers that fit into room for found.
func (f *filling) index(a answered, room int32) {
	f.rounds++
	for k := range a.answers {
		i := int32(k)
		if n := a.length(i); n <= room && f.round[n] != f.rounds {
			f.round[n], f.best[n] = f.rounds, i
		}
	}
}

// found returns the most related answer of the given length.
func (f *filling) found(n int32) (int32, bool) {
	if n <= 0 || f.round[n] != f.rounds {
		return 0, false
	}
	return f.best[n], true
}

// offer replaces the choice if the value of the given answers is greater.
func (f *filling) offer(value int64, answers ...int32) {
	if value > f.most {
		f.most, f.count = value, copy(f.chosen[:], answers)
	}
}

// nearest returns the indices of at most three answers that leave the least room, and that room; none if none fits.
// Of equal room, those with the greatest sum of score times length are returned.
func (f *filling) nearest(answers []similarity.Candidate, s *stock, room int32) (chosen []int32, left int32) {
	a := answered{answers, s}
	f.short = f.short[:0]
	for k := range answers {
		if i := int32(k); a.length(i) <= room && len(f.short) < neared {
			f.short = append(f.short, i)
		}
	}
	// of equally long ones the most related stays first
	slices.SortStableFunc(f.short, func(i, j int32) int { return cmp.Compare(a.length(i), a.length(j)) })
	f.most, f.count = -1, 0
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
			left, f.most = rest, -1
		}
		f.offer(value, chosen...)
	}
	for at, i := range f.short {
		rest := room - a.length(i)
		take(rest, i)
		for low, high := at+1, len(f.short)-1; low <= high; {
			j, k := f.short[low], f.short[high]
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
