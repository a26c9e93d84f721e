// Package calendar finds the item that is first by a time within a moving span.
package calendar

import (
	"math/bits"

	"loaderd/packonline/internal/bitset"
)

// Queue finds the item that is first by a time, with the precision of a bin; of the items in a bin, the one that was
// added first. Times are within a span that ends now (unit: documents). Each bin of the span has its own place. Bins
// that are more than a span apart share a place. Items are small numbers, in the order in which they were added.
type Queue struct {
	width     int    // log2 of a bin's width in documents
	places    []ends // place -> items of its bin, only valid for members of usedSlots
	usedSlots bitset.Set
	links     []link // by item, only valid for items in the queue
}

// ends are the first and the last item of a place.
type ends struct{ first, last int32 }

// link is the position of an item: its place, and its neighbours there.
type link struct{ slot, prev, next int32 }

// None is no item.
const None = bitset.None

// maxBins is the maximum number of bins per span. It is small enough for the processor's first-level cache. With a
// span of four pools of 4,096, a bin is 1/256 of a pool wide.
const maxBins = 1024

// New returns an empty queue for times within the last span documents, including the current one.
func New(span int) Queue {
	var q Queue
	for (span-1)>>q.width >= maxBins {
		q.width++
	}
	n := 1 << bits.Len(uint((span-1)>>q.width+1)) // one more bin, because the first and the last one are partial
	q.places, q.usedSlots = make([]ends, n), bitset.New(n)
	return q
}

// Bin returns the bin of a time.
func (q *Queue) Bin(time int64) int64 { return time >> q.width }

// IsBinStart reports whether a bin begins at a time.
func (q *Queue) IsBinStart(time int64) bool { return time&(1<<q.width-1) == 0 }

func (q *Queue) slotOf(time int64) int32 { return int32(q.Bin(time)) & int32(len(q.places)-1) }

// FirstAt returns the first item of the bin of a time, or None.
func (q *Queue) FirstAt(time int64) int32 {
	if at := q.slotOf(time); q.usedSlots.Has(at) {
		return q.places[at].first
	}
	return None
}

// Next returns the item after i in its bin, or None.
func (q *Queue) Next(i int32) int32 { return q.links[i].next }

// Add adds item i, which is greater than all items of the queue, at a time.
func (q *Queue) Add(time int64, i int32) {
	for int(i) >= len(q.links) {
		q.links = append(q.links, link{})
	}
	at := q.slotOf(time)
	p := &q.places[at]
	if q.usedSlots.Has(at) {
		q.links[p.last].next = i
		q.links[i] = link{at, p.last, None}
		p.last = i
		return
	}
	q.usedSlots.Add(at)
	q.links[i] = link{at, None, None}
	*p = ends{i, i}
}

// Remove removes item i.
func (q *Queue) Remove(i int32) {
	x := q.links[i]
	p := &q.places[x.slot]
	if p.first == p.last {
		q.usedSlots.Remove(x.slot)
		return
	}
	if x.prev == None {
		p.first = x.next
	} else {
		q.links[x.prev].next = x.next
	}
	if x.next == None {
		p.last = x.prev
	} else {
		q.links[x.next].prev = x.prev
	}
}

// Renumber changes the number of item i to n, which is at most i. All items must be renumbered, in ascending order.
func (q *Queue) Renumber(i, n int32) {
	x := q.links[i]
	p := &q.places[x.slot]
	if x.prev == None {
		p.first = n
	} else {
		x.prev = p.last
		q.links[p.last].next = n
	}
	p.last = n
	q.links[n] = x
}

// First returns the first item, or None. The bins of all items must be after the bin of the time behind.
func (q *Queue) First(behind int64) int32 {
	at := q.usedSlots.From(q.slotOf(behind + 1<<q.width))
	if at == None {
		if at = q.usedSlots.From(0); at == None {
			return None
		}
	}
	return q.places[at].first
}
