package packonline

import (
	"cmp"
	"slices"

	"loaderd/packonline/related"
)

// filling chooses pieces that fill room exactly, of those that are related.
type filling struct {
	best   []int32 // by length: the most related answer
	round  []int64 // by length: when that was written
	rounds int64
	chosen [3]int32
	short  []int32 // answers that fit, by length
}

func newFilling(longest int32) filling {
	return filling{best: make([]int32, longest+1), round: make([]int64, longest+1)}
}

// choose returns which one, two, or three if it must, of the answers have room tokens together: those with the greatest sum of score
// times length.
func (f *filling) choose(answers []related.Candidate, s *stock, room int32) []int32 {
	length := func(i int32) int32 { return s.items[answers[i].Slot].length }
	value := func(i int32) int64 { return int64(answers[i].Score) * int64(length(i)) }
	f.rounds++
	for k := range answers {
		i := int32(k)
		if n := length(i); n <= room && f.round[n] != f.rounds {
			f.round[n], f.best[n] = f.rounds, i
		}
	}
	// found is the most related answer of a length.
	found := func(n int32) (int32, bool) {
		if n <= 0 || f.round[n] != f.rounds {
			return 0, false
		}
		return f.best[n], true
	}
	most, count := int64(-1), 0
	take := func(v int64, chosen ...int32) {
		if v > most {
			most, count = v, copy(f.chosen[:], chosen)
		}
	}
	if i, ok := found(room); ok {
		take(value(i), i)
	}
	for k := range answers {
		i := int32(k)
		if j, ok := found(room - length(i)); ok && j != i {
			take(value(i)+value(j), i, j)
		}
	}
	if count == 0 {
		for k := range answers[:min(len(answers), combined)] {
			i := int32(k)
			left := room - length(i)
			if left <= 0 {
				continue
			}
			for j := range i {
				if m, ok := found(left - length(j)); ok && m != i && m != j {
					take(value(i)+value(j)+value(m), i, j, m)
				}
			}
		}
	}
	return f.chosen[:count]
}

// nearest returns which of the answers, three at most, leave the least of room, and how much that is: none where none fits. Of those
// that leave as much it prefers those with the greatest sum of score times length.
func (f *filling) nearest(answers []related.Candidate, s *stock, room int32) (chosen []int32, left int32) {
	length := func(i int32) int32 { return s.items[answers[i].Slot].length }
	f.short = f.short[:0]
	for k := range answers {
		if i := int32(k); length(i) <= room && len(f.short) < neared {
			f.short = append(f.short, i)
		}
	}
	// of equal ones the most related stays first
	slices.SortStableFunc(f.short, func(a, b int32) int { return cmp.Compare(length(a), length(b)) })
	most, count := int64(-1), 0
	left = room
	take := func(rest int32, chosen ...int32) {
		if rest > left {
			return
		}
		var value int64
		for _, i := range chosen {
			value += int64(answers[i].Score) * int64(length(i))
		}
		if rest < left || value > most {
			left, most, count = rest, value, copy(f.chosen[:], chosen)
		}
	}
	for a, i := range f.short {
		rest := room - length(i)
		take(rest, i)
		for low, high := a+1, len(f.short)-1; low <= high; {
			j, k := f.short[low], f.short[high]
			if length(k) > rest {
				high--
				continue
			}
			take(rest-length(k), i, k)
			switch both := length(j) + length(k); {
			case low == high || both > rest:
				high--
			default:
				take(rest-both, i, j, k)
				low++
			}
		}
	}
	return f.chosen[:count], left
}
