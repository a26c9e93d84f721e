package packonline

import (
	"cmp"
	"slices"

	"loaderd/packonline/internal/bitset"
)

// sortedPool holds the buffered pieces of bucketllm, by length and by arrival. A piece keeps its place while it is
// buffered. Of equally long pieces, the one that has had its length longest is first. Every operation except pair
// costs O(log64 L), and no memory is allocated once the slices have grown.
type sortedPool struct {
	longest  int32      // no piece is longer
	lengths  bitset.Set // in use
	reversed bitset.Set // longest - length, for lengths in use
	queues   []queue    // length in use -> places of its pieces
	places   []place
	vacant   int32 // first place without a piece; such places are linked by behind
	oldest   int32
	newest   int32
	pieces   int
}

type place struct {
	waiting
	before, behind int32 // in the queue of its length
	older, newer   int32 // by arrival
}

func newSortedPool(longest int32) *sortedPool {
	n := int(longest) + 1
	return &sortedPool{
		longest:  longest,
		lengths:  bitset.New(n),
		reversed: bitset.New(n),
		queues:   make([]queue, n),
		vacant:   none,
		oldest:   none,
		newest:   none,
	}
}

// add adds a piece of the newest document.
func (s *sortedPool) add(w waiting) {
	i := s.vacant
	if i == none {
		i = int32(len(s.places))
		s.places = append(s.places, place{})
	} else {
		s.vacant = s.places[i].behind
	}
	s.places[i].waiting = w
	s.pieces++
	s.arrive(i)
	s.enqueue(i)
}

// take removes the piece at place i.
func (s *sortedPool) take(i int32) waiting {
	s.dequeue(i)
	p := &s.places[i]
	if p.older == none {
		s.oldest = p.newer
	} else {
		s.places[p.older].newer = p.newer
	}
	if p.newer == none {
		s.newest = p.older
	} else {
		s.places[p.newer].older = p.older
	}
	p.behind = s.vacant
	s.vacant = i
	s.pieces--
	return p.waiting
}

// cut removes the first n tokens of the piece at place i, which must be longer, and returns them. The rest stays in
// the pool and keeps its age.
func (s *sortedPool) cut(i, n int32) waiting {
	s.dequeue(i)
	w := &s.places[i].waiting
	head := *w
	head.length = n
	w.start += n
	w.length -= n
	s.enqueue(i)
	return head
}

// at returns the piece at place i.
func (s *sortedPool) at(i int32) *waiting { return &s.places[i].waiting }

// fitting returns the place of the longest piece of at most room tokens, or none.
func (s *sortedPool) fitting(room int32) int32 {
	x := s.reversed.From(s.longest - room)
	if x == none {
		return none
	}
	return s.queues[s.longest-x].first
}

// shortest returns the place of the shortest piece, or none.
func (s *sortedPool) shortest() int32 {
	length := s.lengths.From(1)
	if length == none {
		return none
	}
	return s.queues[length].first
}

// pairSteps is the maximum number of steps of one search for a pair. On log-normal lengths the mean is 4 to 8 steps.
const pairSteps = 1024

// pair returns the places of two pieces with the greatest sum of lengths that is above least and at most most, or
// none. For each length b in use, from half of least on, it finds the longest other piece a that is no longer than b.
// The search ends with a sum of most, or after pairSteps lengths with the best sum until then. The paper does not
// define which of several pairs with the greatest sum is chosen. Here it is the most even one, which keeps the
// shortest pieces for the ends of other rows. On log-normal lengths it splits little more than half as many documents
// as the least even one.
func (s *sortedPool) pair(least, most int32) (i, j int32) {
	i, j = none, none
	last := most - s.at(s.shortest()).length
	b := s.lengths.From(least/2 + 1)
	for steps := 0; b != none && b <= last && least < most && steps < pairSteps; steps++ {
		q := s.queues[b]
		k := s.fitting(min(most-b, b-1))
		if q.first != q.last && 2*b <= most {
			k = s.places[q.first].behind
		}
		if k != none && b+s.at(k).length > least {
			i, j, least = q.first, k, b+s.at(k).length
		}
		b = s.lengths.From(b + 1)
	}
	return i, j
}

// enqueue appends the piece at place i to the queue of its length.
func (s *sortedPool) enqueue(i int32) {
	p := &s.places[i]
	p.before, p.behind = none, none
	q := &s.queues[p.length]
	if !s.lengths.Has(p.length) {
		s.lengths.Add(p.length)
		s.reversed.Add(s.longest - p.length)
		*q = queue{i, i}
		return
	}
	p.before = q.last
	s.places[q.last].behind = i
	q.last = i
}

func (s *sortedPool) dequeue(i int32) {
	p := &s.places[i]
	q := &s.queues[p.length]
	if q.first == q.last {
		s.lengths.Remove(p.length)
		s.reversed.Remove(s.longest - p.length)
		return
	}
	if p.before == none {
		q.first = p.behind
	} else {
		s.places[p.before].behind = p.behind
	}
	if p.behind == none {
		q.last = p.before
	} else {
		s.places[p.behind].before = p.before
	}
}

// arrive makes the piece at place i the newest.
func (s *sortedPool) arrive(i int32) {
	s.places[i].older, s.places[i].newer = s.newest, none
	if s.newest == none {
		s.oldest = i
	} else {
		s.places[s.newest].newer = i
	}
	s.newest = i
}

// list returns all pieces, the shortest first, in the order of their queues.
func (s *sortedPool) list() []waiting {
	all := make([]waiting, 0, s.pieces)
	for x := s.lengths.From(1); x != none; x = s.lengths.From(x + 1) {
		for i := s.queues[x].first; i != none; i = s.places[i].behind {
			all = append(all, s.places[i].waiting)
		}
	}
	return all
}

// restore fills an empty pool with the result of list.
func (s *sortedPool) restore(pieces []waiting) {
	s.pieces = len(pieces)
	s.places = make([]place, len(pieces))
	order := make([]int32, len(pieces))
	for i, w := range pieces {
		s.places[i].waiting = w
		s.enqueue(int32(i))
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(pieces[a].arrived, pieces[b].arrived) })
	for _, i := range order {
		s.arrive(i)
	}
}
