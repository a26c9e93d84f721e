package packonline

import (
	"math/bits"

	"loaderd/packonline/internal/bitset"
)

// calendarQueue finds the held row that is first by a time, with the precision of a bin; of the rows in a bin, the one
// that was packed first. Times are within a span of documents that ends now. Each bin of the span has its own place.
// Bins that are more than a span apart share a place.
type calendarQueue struct {
	link      int     // index into heldRow.links
	width     int     // log2 of a bin's width in documents
	rows      []queue // place -> rows of its bin, only valid for members of used
	usedSlots bitset.Set
}

// rowLink is the position of a row in a calendar: its place, and its neighbours there.
type rowLink struct{ slot, prev, next int32 }

// maxBins is the maximum number of bins per span. It is small enough for the processor's first-level cache. With a
// pool of 4,096 and a MaxAge of 16,384, a bin is 1/256 of a pool wide.
const maxBins = 1024

// newCalendarQueue returns an empty calendar for times within the last span documents, including the current one.
func newCalendarQueue(span, link int) calendarQueue {
	c := calendarQueue{link: link}
	for (span-1)>>c.width >= maxBins {
		c.width++
	}
	n := 1 << bits.Len(uint((span-1)>>c.width+1)) // one more bin, because the first and the last one are partial
	c.rows, c.usedSlots = make([]queue, n), bitset.New(n)
	return c
}

// bin returns the bin of a time.
func (c *calendarQueue) bin(time int64) int64 { return time >> c.width }

// isBinStart reports whether a bin begins at a time.
func (c *calendarQueue) isBinStart(time int64) bool { return time&(1<<c.width-1) == 0 }

func (c *calendarQueue) slotOf(time int64) int32 { return int32(c.bin(time)) & int32(len(c.rows)-1) }

// firstAt returns the first row of the bin of a time, or none.
func (c *calendarQueue) firstAt(time int64) int32 {
	if at := c.slotOf(time); c.usedSlots.Has(at) {
		return c.rows[at].first
	}
	return none
}

// schedule adds the row that was packed last at a time.
func (c *calendarQueue) schedule(rows []heldRow, time int64, i int32) {
	at := c.slotOf(time)
	q := &c.rows[at]
	if c.usedSlots.Has(at) {
		rows[q.last].links[c.link].next = i
		rows[i].links[c.link] = rowLink{at, q.last, none}
		q.last = i
		return
	}
	c.usedSlots.Add(at)
	rows[i].links[c.link] = rowLink{at, none, none}
	*q = queue{i, i}
}

func (c *calendarQueue) remove(rows []heldRow, i int32) {
	x := rows[i].links[c.link]
	q := &c.rows[x.slot]
	if q.first == q.last {
		c.usedSlots.Remove(x.slot)
		return
	}
	if x.prev == none {
		q.first = x.next
	} else {
		rows[x.prev].links[c.link].next = x.next
	}
	if x.next == none {
		q.last = x.prev
	} else {
		rows[x.next].links[c.link].prev = x.prev
	}
}

// renumber updates the links of the last row after it was renumbered. It must be called with all rows up to that one,
// in the order in which they were packed.
func (c *calendarQueue) renumber(rows []heldRow) {
	i := int32(len(rows) - 1)
	x := &rows[i].links[c.link]
	q := &c.rows[x.slot]
	if x.prev == none {
		q.first = i
	} else {
		x.prev = q.last
		rows[q.last].links[c.link].next = i
	}
	q.last = i
}

// firstRow returns the first row, or none. The bins of all rows must be after the bin of the time behind.
func (c *calendarQueue) firstRow(behind int64) int32 {
	at := c.usedSlots.From(c.slotOf(behind + 1<<c.width))
	if at == none {
		if at = c.usedSlots.From(0); at == none {
			return none
		}
	}
	return c.rows[at].first
}
