package planner

import (
	"math"
	"slices"

	"loaderd/loader/plan"
	"loaderd/packonline"
)

// IsWarmedUp reports whether the shuffle window is full, so that steps leave at the rate at which documents arrive.
// Without a window it reports whether a packing pool is at least 3/4 full, or true if a method has no pool. A new
// planner is not primed, and neither is one that was flushed.
func (p *Planner) IsWarmedUp() bool {
	if w := p.config.Shuffle.Window; w > 1 {
		return p.window.Len() >= w
	}
	return slices.ContainsFunc(p.packers, func(k packerState) bool {
		if !slices.Contains(packonline.Parameters(k.config.Method), "pool") {
			return true
		}
		bound := k.config.Pool
		if k.config.MaxAge > 0 {
			bound = min(bound, k.config.MaxAge)
		}
		return 4*k.packer.Pending().Pieces >= 3*bound
	})
}

// EarlyShortage returns what the next step lacks if all buffered documents are flushed for it. Flushes is true only if
// the buffered tokens suffice for the smallest step, including the tokens that packing may drop. So a few short
// documents do not make a step of padding.
func (p *Planner) EarlyShortage() Shortage {
	s := Shortage{Early: true}
	least := int64(math.MaxInt64)
	for i := range p.queues.buckets {
		least = min(least, int64(p.queues.buckets[i].stepRows)*p.maxRowTokens(i))
	}
	s.Flushes = p.BufferedTokens() >= least && p.Flushes()
	lacks := 0
	for i := range p.queues.buckets {
		b := &p.queues.buckets[i]
		there := p.potentialRows(i)
		if !s.Flushes {
			there = min(there, b.stepRows-1)
		}
		if there = min(there, b.stepRows); s.Needed == 0 || there*s.Needed > s.Packed*b.stepRows {
			s.Needed, s.Packed = b.stepRows, there
			lacks = (b.stepRows - there) * int(b.length)
		}
	}
	if mean := p.meanLength(); mean > 0 {
		s.Documents = int64(math.Ceil(float64(lacks) / mean))
	}
	return s
}

// potentialRows returns the number of rows of a bucket if all buffered tokens that are not in rows yet fill such rows.
func (p *Planner) potentialRows(bucket int) int {
	rows, unpacked := len(p.queues.buckets[bucket].waitingRows), p.packers.pending().Tokens
	p.window.Each(func(a atom) { unpacked += plan.RowTokens(a.pieces) })
	for l := range p.packers.rowBuilders() {
		if l.queueIndex == bucket {
			rows += l.bufferedRows()
		}
	}
	n := p.maxRowTokens(bucket)
	return rows + int((unpacked+n-1)/n)
}

// maxRowTokens returns the maximum number of document tokens that packing uses per row of a bucket, including dropped
// ones.
func (p *Planner) maxRowTokens(bucket int) int64 {
	dropped := 0
	for _, k := range p.packers {
		atoms := int(math.Ceil(1 / min(k.config.Atom, 1))) // per row
		dropped = max(dropped, atoms*packonline.MaxDropped(k.config))
	}
	return int64(p.queues.buckets[bucket].length) + int64(dropped)
}

// meanLength returns the mean length of the packed documents in tokens, or 0 before the first.
func (p *Planner) meanLength() float64 {
	_, packed := p.Counts()
	return float64(packed.Tokens) / float64(max(packed.Documents, 1))
}
