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
	undraftedPart = 16 // the last 1/drained of the pieces are not drafted: they are too few to choose from
	// 1/repacked of the drafted rows is the minimum that is packed again, and the minimum that is not
	minRepackPart    = 16
	extraPaddingPart = 256 // 1/yields of the slots is the additional padding that is accepted for relatedness
)

// rowDraft has the related rows of a flush before any of them is emitted.
type rowDraft struct {
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
	p.requireHints()
	if p.config.Splice.Fill == "trim" {
		for p.pool.pieces > 0 {
			p.emitTrimmed(p.randomPiece(), out)
		}
		return
	}
	if p.pool.pieces == 0 {
		return
	}
	a := p.packByLength(p.pool.listPieces())
	most := a.counts.Padding + a.counts.Slots/extraPaddingPart
	d, rest := p.draftRows()
	order := d.repackOrder()
	for n := 0; ; n = nextRepackCount(n, len(order)) {
		var kept int64
		for _, i := range order[n:] {
			kept += d.counts[i].padding
		}
		byLength := p.packByLength(d.mergePieces(rest, order[:n], p.now()))
		if n == len(order) || kept+byLength.counts.Padding <= most {
			slices.Sort(order[n:])
			p.emitDraft(&d, order[n:], byLength, out)
			return
		}
	}
}

// nextRepackCount returns how many of all rows are packed again if n were too few: twice as many, and later those and
// half of the others.
func nextRepackCount(n, all int) int {
	least := max(all/minRepackPart, 1)
	switch {
	case all-n <= least:
		return all
	case 2*n < all:
		return min(max(2*n, least), all)
	default:
		return n + (all-n)/2
	}
}

// lengthPacking has rows that were packed by length, and their contribution to the counts.
type lengthPacking struct {
	rows   Rows
	counts Counts
}

// packByLength packs pieces, in order of arrival, as a flush of bucket does. It does not change the Packer's own state.
// The result is valid until the next call.
func (p *splice) packByLength(pieces []bufferedPiece) *lengthPacking {
	if p.lengthPacker == nil {
		p.lengthPacker = &bucket{pool: newIndexedPool(p.longest, len(p.lengths)), maxWait: p.maxWait}
	}
	b, a := p.lengthPacker, &p.lengthRows
	b.packerBase = p.packerBase
	for _, w := range pieces {
		b.pool.add(w, bucketFor(b.lengths, w.length))
	}
	b.pool.credit = b.maxCredit()
	a.rows.Reset()
	b.Flush(&a.rows)
	a.counts = Counts{Rows: b.counts.Rows - p.counts.Rows, Slots: b.counts.Slots - p.counts.Slots,
		Padding: b.counts.Padding - p.counts.Padding}
	return a
}

// draftRows packs related rows until few pieces are left, removes these from the stock and returns them in order of
// arrival. The counts of rows do not change.
func (p *splice) draftRows() (d rowDraft, rest []bufferedPiece) {
	counts, ends := p.counts, p.endCounts
	few := p.pool.pieces / undraftedPart
	for n := p.pool.longestAtMost(p.longest); n != none && p.pool.pieces > few; {
		before, ended := p.counts, p.endCounts
		if p.emitFull(n, &d.rows) {
			d.recordRow(before, p.counts, ended, p.endCounts)
		} else {
			n--
		}
		n = p.pool.longestAtMost(n)
	}
	for p.pool.pieces > few {
		before, ended := p.counts, p.endCounts
		p.emitNext(&d.rows)
		d.recordRow(before, p.counts, ended, p.endCounts)
	}
	p.counts, p.endCounts = counts, ends
	rest = p.pool.listPieces()
	for n := p.pool.longestAtMost(p.longest); n != none; n = p.pool.longestAtMost(p.longest) {
		p.removeItem(p.pool.takeOldest(n))
	}
	p.pool.credit = p.maxCredit()
	return d, rest
}

// emitFull emits a full row around the oldest piece of length n, of related pieces if possible, and reports whether it
// did.
func (p *splice) emitFull(n int32, out *Rows) (done bool) {
	if p.queryBudget > 0 && p.emitRelated(p.pool.queues[n].first, out) {
		return true
	}
	p.countByLength(func() { done = p.emitTight(n, out) || p.emitExact(n, out) })
	return done
}

// repackOrder returns the rows in the order in which they are packed again: those with the most padding first, then the
// latest ones.
func (d *rowDraft) repackOrder() []int32 {
	out := make([]int32, len(d.counts))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(i, j int32) int {
		return cmp.Or(cmp.Compare(d.counts[j].padding, d.counts[i].padding), cmp.Compare(j, i))
	})
	return out
}

// mergePieces returns rest and the pieces of the given rows in order of arrival.
func (d *rowDraft) mergePieces(rest []bufferedPiece, rows []int32, now int64) []bufferedPiece {
	out := slices.Clone(rest)
	for _, i := range rows {
		_, pieces, ages := d.rows.Row(int(i))
		for k, x := range pieces {
			out = append(out, bufferedPiece{x.Doc, now - int64(ages[k]), x.Start, x.Length})
		}
	}
	slices.SortFunc(out, func(a, b bufferedPiece) int { return cmp.Compare(a.arrived, b.arrived) })
	return out
}

// emitDraft emits drafted rows and those packed by length, and counts them.
func (p *splice) emitDraft(d *rowDraft, rows []int32, byLength *lengthPacking, out *Rows) {
	for _, i := range rows {
		length, pieces, ages := d.rows.Row(int(i))
		out.appendRow(length, pieces, ages, 0)
		c := d.counts[i]
		p.counts.Rows++
		p.counts.Slots += int64(length)
		p.counts.Padding += c.padding
		if c.end != none {
			*p.endCounts.counters()[c.end]++
		}
	}
	for i := range byLength.rows.Len() {
		length, pieces, ages := byLength.rows.Row(i)
		out.appendRow(length, pieces, ages, 0)
	}
	p.counts.Rows += byLength.counts.Rows
	p.counts.Slots += byLength.counts.Slots
	p.counts.Padding += byLength.counts.Padding
	p.endCounts.unrelated += byLength.counts.Rows
}

// recordRow records the contribution of the last row.
func (d *rowDraft) recordRow(before, now Counts, ended, ends rowEndCounts) {
	c := draftCounts{now.Padding - before.Padding, none}
	for k, n := range ends.counters() {
		if *n > *ended.counters()[k] {
			c.end = k
		}
	}
	d.counts = append(d.counts, c)
}
