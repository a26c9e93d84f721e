package packonline

import (
	"math/bits"

	"loaderd/packonline/internal/bitset"
)

// calendar finds the held row that is first by a time, with the precision of a bin; of the rows in a bin, the one
// that was packed first. Times are within a span of documents that ends now. Each bin of the span has its own place.
// Bins that are more than a span apart share a place.
type calendar struct {
	link  int     // index into heldRow.links
	width int     // log2 of a bin's width in documents
	rows  []queue // place -> rows of its bin, only valid for members of used
	used  bitset.Set
}

// link is the position of a row in a calendar: its place, and its neighbours there.
type link struct{ place, before, after int32 }

// maxBins is the maximum number of bins per span. It is small enough for the processor's first-level cache. With a
// pool of 4,096 and a MaxAge of 16,384, a bin is 1/256 of a pool wide.
const maxBins = 1024

// newCalendar returns an empty calendar for times within the last span documents, including the current one.
func newCalendar(span, link int) calendar {
	c := calendar{link: link}
	for (span-1)>>c.width >= maxBins {
		c.width++
	}
	n := 1 << bits.Len(uint((span-1)>>c.width+1)) // one more bin, because the first and the last one are partial
	c.rows, c.used = make([]queue, n), bitset.New(n)
	return c
}

// bin returns the bin of a time.
func (c *calendar) bin(time int64) int64 { return time >> c.width }

// begins reports whether a bin begins at a time.
func (c *calendar) begins(time int64) bool { return time&(1<<c.width-1) == 0 }

func (c *calendar) place(time int64) int32 { return int32(c.bin(time)) & int32(len(c.rows)-1) }

// at returns the first row of the bin of a time, or none.
func (c *calendar) at(time int64) int32 {
	if at := c.place(time); c.used.Has(at) {
		return c.rows[at].first
	}
	return none
}

// schedule adds the row that was packed last at a time.
func (c *calendar) schedule(rows []heldRow, time int64, i int32) {
	at := c.place(time)
	q := &c.rows[at]
	if c.used.Has(at) {
		rows[q.last].links[c.link].after = i
		rows[i].links[c.link] = link{at, q.last, none}
		q.last = i
		return
	}
	c.used.Add(at)
	rows[i].links[c.link] = link{at, none, none}
	*q = queue{i, i}
}

func (c *calendar) remove(rows []heldRow, i int32) {
	x := rows[i].links[c.link]
	q := &c.rows[x.place]
	if q.first == q.last {
		c.used.Remove(x.place)
		return
	}
	if x.before == none {
		q.first = x.after
	} else {
		rows[x.before].links[c.link].after = x.after
	}
	if x.after == none {
		q.last = x.before
	} else {
		rows[x.after].links[c.link].before = x.before
	}
}

// renumber updates the links of the last row after it was renumbered. It must be called with all rows up to that one,
// in the order in which they were packed.
func (c *calendar) renumber(rows []heldRow) {
	i := int32(len(rows) - 1)
	x := &rows[i].links[c.link]
	q := &c.rows[x.place]
	if x.before == none {
		q.first = i
	} else {
		x.before = q.last
		rows[q.last].links[c.link].after = i
	}
	q.last = i
}

// first returns the first row, or none. The bins of all rows must be after the bin of the time behind.
func (c *calendar) first(behind int64) int32 {
	at := c.used.From(c.place(behind + 1<<c.width))
	if at == none {
		if at = c.used.From(0); at == none {
			return none
		}
	}
	return c.rows[at].first
}
