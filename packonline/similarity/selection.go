package similarity

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// selection keeps the k best of the offered candidates, and drops the others periodically. The order is total, so the
// order of the offers has no effect.
type selection struct {
	k     int
	list  []ranked
	limit int   // length of list at which others are dropped
	least int32 // minimum score of a kept candidate
}

// ranked encodes a candidate as one number, because numbers are sorted much faster. Ascending order is descending
// order of scores, then ascending order of seats.
type ranked uint64

func newRanked(score int32, seat int32) ranked { return ranked(math.MaxInt32-score)<<32 | ranked(seat) }

func (r ranked) score() int32 { return math.MaxInt32 - int32(r>>32) }
func (r ranked) seat() int32  { return int32(uint32(r)) }

func (s *selection) reset(k int) { s.k, s.list, s.limit, s.least = k, s.list[:0], 2*k, 1 }

func (s *selection) offer(score, seat int32) {
	if score < s.least {
		return
	}
	if s.list = append(s.list, newRanked(score, seat)); len(s.list) >= s.limit {
		s.dropWorst()
	}
}

// dropWorst removes candidates with lower scores than the k best. More than k remain if scores are equal.
func (s *selection) dropWorst() {
	selectSmallest(s.list, s.k)
	least := slices.Max(s.list[:s.k]).score()
	n := s.k
	for _, r := range s.list[s.k:] {
		s.list[n] = r
		if r.score() == least {
			n++
		}
	}
	s.list, s.limit, s.least = s.list[:n], 2*n, least
}

// best returns the k best in order; of equal scores, earlier documents are first.
func (s *selection) best(x *Index) []ranked {
	if len(s.list) > s.k {
		s.dropWorst()
	}
	slices.Sort(s.list)
	for from, to := 0, 1; from < len(s.list); from, to = to, to+1 {
		for to < len(s.list) && s.list[to].score() == s.list[from].score() {
			to++
		}
		if to > from+1 {
			slices.SortFunc(s.list[from:to], func(a, b ranked) int {
				return cmp.Compare(x.entries[a.seat()].seq, x.entries[b.seat()].seq)
			})
		}
	}
	return s.list[:min(len(s.list), s.k)]
}

// selectSmallest moves the n smallest elements of a list to the front, in any order. If partitioning progresses badly,
// which is possible for some orders, it sorts.
func selectSmallest[T ~uint64](list []T, n int) {
	rounds := 2 * bits.Len(uint(len(list)))
	for low, high := 0, len(list); low < n && n < high; rounds-- {
		if rounds == 0 {
			slices.Sort(list[low:high])
			return
		}
		pivot := medianOf3(list[low], list[(low+high)/2], list[high-1])
		// smaller elements move to the front: always swapped, but only counted if smaller, to avoid mispredicted branches
		at := low
		for i := low; i < high; i++ {
			v := list[i]
			list[i], list[at] = list[at], v
			if v < pivot {
				at++
			}
		}
		switch {
		case n <= at:
			high = at
		case at > low:
			low = at
		default: // the pivot is the smallest
			i := low + slices.Index(list[low:high], pivot)
			list[low], list[i] = list[i], list[low]
			low++
		}
	}
}

// medianOf3 returns the median of three.
func medianOf3[T ~uint64](a, b, c T) T { return max(min(a, b), min(max(a, b), c)) }
