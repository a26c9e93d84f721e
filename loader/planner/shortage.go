package planner

import (
	"math"
	"slices"
)

// Shortage is what the next step lacks, in rows. The shuffle window and the queues release rows only when they are
// full. With one bucket the shortage is exact. With several it is a lower bound, because rows may be packed for
// another bucket than the one that is nearly full.
type Shortage struct {
	Needed    int   // rows that must be packed before the next step leaves, including those that stay buffered after it
	Packed    int   // packed rows among Needed
	Held      int   // finished rows in the packers' holdback; not counted in There
	Documents int64 // minimum number of documents that must still arrive, at the mean length so far; 0 if unknown
	Flushes   bool  // a flush would complete a step
	Early     bool  // computed by EarlyShortage: rows count as There once their documents are buffered
}

// Shortage returns what the next step lacks.
func (p *Planner) Shortage() Shortage {
	s := Shortage{Flushes: p.Flushes()}
	pool, window, rows := p.BufferSizes()
	s.Held = int(pool.Held.Rows)
	perAtom := float64(p.packers[0].atomRows) / float64(p.packers[0].rowAtoms)
	s.Packed = rows + int(float64(window)*perAtom)
	missing := p.queues.missingRows()
	if w := p.config.Shuffle.Window; w > 1 {
		missing += int(float64(w-window) * perAtom)
	}
	for l := range p.packers.rowBuilders() {
		missing -= l.bufferedRows()
	}
	missing = max(missing, 1)
	s.Needed = s.Packed + missing
	_, packed := p.Counts()
	if packed.Documents > 0 {
		length := float64(slices.Min(p.rowLengths.lengths))
		if packed.Rows > 0 {
			length = float64(packed.Slots) / float64(packed.Rows) / min(p.config.Packing.Atom, 1)
		}
		mean := p.meanLength()
		tokens := float64(missing) * length
		if lacks := p.config.Packing.Canonical().Held() - int(pool.Held.Pieces) - pool.Pieces; lacks > 0 {
			tokens += float64(lacks) * min(mean, length) // held-back rows are filled first
		}
		s.Documents = int64(math.Ceil(tokens / mean))
	}
	return s
}

// missingRows returns the minimum number of rows that must be added before a step leaves.
func (q *queues) missingRows() int {
	steps, full := q.backlog+1, 0
	least := math.MaxInt // rows of the smallest step
	var begun []int      // missing rows of each incomplete step
	for i := range q.buckets {
		b := &q.buckets[i]
		full += b.fullSteps()
		least = min(least, b.stepRows)
		if n := len(b.waitingRows) % b.stepRows; n > 0 {
			begun = append(begun, b.stepRows-n)
		}
	}
	slices.Sort(begun)
	rows := 0
	for i := range max(steps-full, 0) {
		if i < len(begun) && begun[i] < least {
			rows += begun[i]
		} else {
			rows += least
		}
	}
	return rows
}
