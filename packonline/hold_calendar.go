package packonline

import (
	"math/bits"

	"loaderd/packonline/internal/bitset"
)

// calendar finds, of the rows that are held, the one that is first by a time, as exactly as a bin is wide; of those in
// a bin the one that was packed first. Times are those of a span of documents that ends now: each bin of it has a place
// of its own, and bins that are more than a span apart share one.
type calendar struct {
	link  int     // of heldRow.links
	width int     // of a bin, as a power of two of documents
	rows  []queue // place -> rows of its bin, meaningful for members of used
	used  bitset.Set
}

// link is where a row is in a calendar: its place, and its neighbours there.
type link struct{ place, before, after int32 }

// maxBins is how many bins a span has at most: few enough to stay in the processor's first cache, and each less than a
// part in 250 of a pool.
const maxBins = 1024

// newCalendar returns an empty calendar for times of the last so many documents, now included.
func newCalendar(span, link int) calendar {
	c := calendar{link: link}
	for (span-1)>>c.width >= maxBins {
		c.width++
	}
	n := 1 << bits.Len(uint((span-1)>>c.width+1)) // one more bin, for its first and last ones are parts of bins
	c.rows, c.used = make([]queue, n), bitset.New(n)
	return c
}

// bin returns the bin of a time.
func (c *calendar) bin(time int64) int64 { return time >> c.width }

// begins reports whether a bin begins with a time.
func (c *calendar) begins(time int64) bool { return time&(1<<c.width-1) == 0 }

func (c *calendar) place(time int64) int32 { return int32(c.bin(time)) & int32(len(c.rows)-1) }

// at returns the first row of a time's bin, none without one.
func (c *calendar) at(time int64) int32 {
	if at := c.place(time); c.used.Has(at) {
		return c.rows[at].first
	}
	return none
}

// schedule enters the row that was packed last at a time.
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

// renumber tells the number of the row that has the last one now. It is called with all rows, in the order in which
// they were packed.
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

// first returns the first row, none without one. All rows' bins are behind that of a time.
func (c *calendar) first(behind int64) int32 {
	at := c.used.From(c.place(behind + 1<<c.width))
	if at == none {
		if at = c.used.From(0); at == none {
			return none
		}
	}
	return c.rows[at].first
}
