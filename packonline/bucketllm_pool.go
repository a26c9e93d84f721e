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
	slots    []poolSlot
	vacant   int32 // first place without a piece; such places are linked by behind
	oldest   int32
	newest   int32
	pieces   int
}

type poolSlot struct {
	bufferedPiece
	prev, next   int32 // in the queue of its length
	older, newer int32 // by arrival
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
func (s *sortedPool) add(w bufferedPiece) {
	i := s.vacant
	if i == none {
		i = int32(len(s.slots))
		s.slots = append(s.slots, poolSlot{})
	} else {
		s.vacant = s.slots[i].next
	}
	s.slots[i].bufferedPiece = w
	s.pieces++
	s.appendNewest(i)
	s.enqueue(i)
}

// remove removes the piece at place i.
func (s *sortedPool) remove(i int32) bufferedPiece {
	s.dequeue(i)
	p := &s.slots[i]
	if p.older == none {
		s.oldest = p.newer
	} else {
		s.slots[p.older].newer = p.newer
	}
	if p.newer == none {
		s.newest = p.older
	} else {
		s.slots[p.newer].older = p.older
	}
	p.next = s.vacant
	s.vacant = i
	s.pieces--
	return p.bufferedPiece
}

// cutHead removes the first n tokens of the piece at place i, which must be longer, and returns them. The rest stays in
// the pool and keeps its age.
func (s *sortedPool) cutHead(i, n int32) bufferedPiece {
	s.dequeue(i)
	w := &s.slots[i].bufferedPiece
	head := *w
	head.length = n
	w.start += n
	w.length -= n
	s.enqueue(i)
	return head
}

// pieceAt returns the piece at place i.
func (s *sortedPool) pieceAt(i int32) *bufferedPiece { return &s.slots[i].bufferedPiece }

// longestAtMost returns the place of the longest piece of at most room tokens, or none.
func (s *sortedPool) longestAtMost(room int32) int32 {
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

// maxPairSteps is the maximum number of steps of one search for a pair. On log-normal lengths the mean is 4 to 8 steps.
const maxPairSteps = 1024

// bestPair returns the places of two pieces with the greatest sum of lengths that is above least and at most most, or
// none. For each length b in use, from half of least on, it finds the longest other piece a that is no longer than b.
// The search ends with a sum of most, or after maxPairSteps lengths with the best sum until then. The paper does not
// define which of several pairs with the greatest sum is chosen. Here it is the most even one, which keeps the
// shortest pieces for the ends of other rows. On log-normal lengths it splits little more than half as many documents
// as the least even one.
func (s *sortedPool) bestPair(least, most int32) (i, j int32) {
	i, j = none, none
	last := most - s.pieceAt(s.shortest()).length
	b := s.lengths.From(least/2 + 1)
	for steps := 0; b != none && b <= last && least < most && steps < maxPairSteps; steps++ {
		q := s.queues[b]
		k := s.longestAtMost(min(most-b, b-1))
		if q.first != q.last && 2*b <= most {
			k = s.slots[q.first].next
		}
		if k != none && b+s.pieceAt(k).length > least {
			i, j, least = q.first, k, b+s.pieceAt(k).length
		}
		b = s.lengths.From(b + 1)
	}
	return i, j
}

// enqueue appends the piece at place i to the queue of its length.
func (s *sortedPool) enqueue(i int32) {
	p := &s.slots[i]
	p.prev, p.next = none, none
	q := &s.queues[p.length]
	if !s.lengths.Has(p.length) {
		s.lengths.Add(p.length)
		s.reversed.Add(s.longest - p.length)
		*q = queue{i, i}
		return
	}
	p.prev = q.last
	s.slots[q.last].next = i
	q.last = i
}

func (s *sortedPool) dequeue(i int32) {
	p := &s.slots[i]
	q := &s.queues[p.length]
	if q.first == q.last {
		s.lengths.Remove(p.length)
		s.reversed.Remove(s.longest - p.length)
		return
	}
	if p.prev == none {
		q.first = p.next
	} else {
		s.slots[p.prev].next = p.next
	}
	if p.next == none {
		q.last = p.prev
	} else {
		s.slots[p.next].prev = p.prev
	}
}

// appendNewest makes the piece at place i the newest.
func (s *sortedPool) appendNewest(i int32) {
	s.slots[i].older, s.slots[i].newer = s.newest, none
	if s.newest == none {
		s.oldest = i
	} else {
		s.slots[s.newest].newer = i
	}
	s.newest = i
}

// listPieces returns all pieces, the shortest first, in the order of their queues.
func (s *sortedPool) listPieces() []bufferedPiece {
	all := make([]bufferedPiece, 0, s.pieces)
	for x := s.lengths.From(1); x != none; x = s.lengths.From(x + 1) {
		for i := s.queues[x].first; i != none; i = s.slots[i].next {
			all = append(all, s.slots[i].bufferedPiece)
		}
	}
	return all
}

// restore fills an empty pool with the result of list.
func (s *sortedPool) restore(pieces []bufferedPiece) {
	s.pieces = len(pieces)
	s.slots = make([]poolSlot, len(pieces))
	order := make([]int32, len(pieces))
	for i, w := range pieces {
		s.slots[i].bufferedPiece = w
		s.enqueue(int32(i))
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(pieces[a].arrived, pieces[b].arrived) })
	for _, i := range order {
		s.appendNewest(i)
	}
}
