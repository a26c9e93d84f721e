package packonline

import (
	"cmp"
	"slices"
)

// A flush has fewer and fewer pieces to choose from, so its last rows would be padded. In a run of less than two
// pools, most rows are from the flush. There padding has priority over relatedness. The flush drafts related rows and
// compares their padding, including that of the remaining pieces, with the padding of packing by length only. If the
// difference is too large, it packs the pieces of some drafted rows again by length.
//
//   - invariant 7: if Fill is exact, a flush pads at most as much as a flush of bucket with the same pieces, plus
//     1/yields of its slots. A draft with no row left is that flush, so the bound holds for all lengths. With one row
//     length padding is in whole rows, so if bucket makes fewer than yields rows, the flush makes as few as
//     bucket.
const (
	drained  = 16  // the last 1/drained of the pieces are not drafted: they are too few to choose from
	repacked = 16  // 1/repacked of the drafted rows is the minimum that is packed again, and the minimum that is not
	yields   = 256 // 1/yields of the slots is the additional padding that is accepted for relatedness
)

// draft has the related rows of a flush before any of them is emitted.
type draft struct {
	rows   Rows
	counts []draftCounts
}

// draftCounts is the contribution of a row to the counts of its Packer.
type draftCounts struct {
	padding int64
	end     int // index of its count in ends.list, none for a row of one document
}

// Flush packs the buffered pieces. If Fill is trim, it makes rows as before to the end.
func (p *splice) Flush(out *Rows) {
	p.ready()
	if p.config.Splice.Fill == "trim" {
		for p.stock.pieces > 0 {
			p.trim(p.draw(), out)
		}
		return
	}
	if p.stock.pieces == 0 {
		return
	}
	a := p.aside(p.stock.list())
	most := a.counts.Padding + a.counts.Slots/yields
	d, rest := p.draft()
	order := d.order()
	for n := 0; ; n = more(n, len(order)) {
		var kept int64
		for _, i := range order[n:] {
			kept += d.counts[i].padding
		}
		byLength := p.aside(d.join(rest, order[:n], p.now()))
		if n == len(order) || kept+byLength.counts.Padding <= most {
			slices.Sort(order[n:])
			p.settle(&d, order[n:], byLength, out)
			return
		}
	}
}

// more returns how many of all rows are packed again if n were too few: twice as many, and later those and half of
// the others.
func more(n, all int) int {
	least := max(all/repacked, 1)
	switch {
	case all-n <= least:
		return all
	case 2*n < all:
		return min(max(2*n, least), all)
	default:
		return n + (all-n)/2
	}
}

// aside has rows that were packed by length, and their contribution to the counts.
type aside struct {
	rows   Rows
	counts Counts
}

// aside packs pieces, in order of arrival, as a flush of bucket does. It does not change the Packer's own state. The
// result is valid until the next call.
func (p *splice) aside(pieces []waiting) *aside {
	if p.other == nil {
		p.other = &bucket{stock: newStock(p.longest, len(p.lengths)), patience: p.patience}
	}
	b, a := p.other, &p.otherRows
	b.tally = p.tally
	for _, w := range pieces {
		b.stock.add(w, bucketFor(b.lengths, w.length))
	}
	b.stock.credit = b.mostCredit()
	a.rows.Reset()
	b.Flush(&a.rows)
	a.counts = Counts{Rows: b.counts.Rows - p.counts.Rows, Slots: b.counts.Slots - p.counts.Slots,
		Padding: b.counts.Padding - p.counts.Padding}
	return a
}

// draft packs related rows until few pieces are left, removes these from the stock and returns them in order of
// arrival. The counts of rows do not change.
func (p *splice) draft() (d draft, rest []waiting) {
	counts, ends := p.counts, p.ends
	few := p.stock.pieces / drained
	for n := p.stock.atMost(p.longest); n != none && p.stock.pieces > few; {
		before, ended := p.counts, p.ends
		if p.full(n, &d.rows) {
			d.count(before, p.counts, ended, p.ends)
		} else {
			n--
		}
		n = p.stock.atMost(n)
	}
	for p.stock.pieces > few {
		before, ended := p.counts, p.ends
		p.next(&d.rows)
		d.count(before, p.counts, ended, p.ends)
	}
	p.counts, p.ends = counts, ends
	rest = p.stock.list()
	for n := p.stock.atMost(p.longest); n != none; n = p.stock.atMost(p.longest) {
		p.free(p.stock.take(n))
	}
	p.stock.credit = p.mostCredit()
	return d, rest
}

// full emits a full row around the oldest piece of length n, of related pieces if possible, and reports whether it
// did.
func (p *splice) full(n int32, out *Rows) (done bool) {
	if p.spare > 0 && p.related(p.stock.queues[n].first, out) {
		return true
	}
	p.byLength(func() { done = p.tight(n, out) || p.exact(n, out) })
	return done
}

// order returns the rows in the order in which they are packed again: those with the most padding first, then the
// latest ones.
func (d *draft) order() []int32 {
	out := make([]int32, len(d.counts))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(i, j int32) int {
		return cmp.Or(cmp.Compare(d.counts[j].padding, d.counts[i].padding), cmp.Compare(j, i))
	})
	return out
}

// join returns rest and the pieces of the given rows in order of arrival.
func (d *draft) join(rest []waiting, rows []int32, now int64) []waiting {
	out := slices.Clone(rest)
	for _, i := range rows {
		_, pieces, ages := d.rows.Row(int(i))
		for k, x := range pieces {
			out = append(out, waiting{x.Doc, now - int64(ages[k]), x.Start, x.Length})
		}
	}
	slices.SortFunc(out, func(a, b waiting) int { return cmp.Compare(a.arrived, b.arrived) })
	return out
}

// settle emits drafted rows and those packed by length, and counts them.
func (p *splice) settle(d *draft, rows []int32, byLength *aside, out *Rows) {
	for _, i := range rows {
		length, pieces, ages := d.rows.Row(int(i))
		out.copy(length, pieces, ages, 0)
		c := d.counts[i]
		p.counts.Rows++
		p.counts.Slots += int64(length)
		p.counts.Padding += c.padding
		if c.end != none {
			*p.ends.list()[c.end]++
		}
	}
	for i := range byLength.rows.Len() {
		length, pieces, ages := byLength.rows.Row(i)
		out.copy(length, pieces, ages, 0)
	}
	p.counts.Rows += byLength.counts.Rows
	p.counts.Slots += byLength.counts.Slots
	p.counts.Padding += byLength.counts.Padding
	p.ends.unrelated += byLength.counts.Rows
}

// count records the contribution of the last row.
func (d *draft) count(before, now Counts, ended, ends ends) {
	c := draftCounts{now.Padding - before.Padding, none}
	for k, n := range ends.list() {
		if *n > *ended.list()[k] {
			c.end = k
		}
	}
	d.counts = append(d.counts, c)
}
