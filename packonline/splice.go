package packonline

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"loaderd/packonline/related"
)

// splice packs related documents into one row (Structured Packing in LLM Training Improves Long Context Utilization,
// Algorithm 1), online, from a bounded pool: a row begins with a root and goes on, breadth first, with the k documents
// of the pool most related to each of its documents. It is bucket with another way to choose: lengths, cuts, padding
// and the bounds on pool and age are those of bucket, and so are its invariants 2 to 4, where Fill is exact.
//
//   - The root is the oldest piece: as good as the paper's random one, and nothing becomes old. With several row
//     lengths it is the oldest
//     of those that need a row of one length, of which too many wait. Where Fill is trim it is random.
//   - Short pieces are kept for a flush, which needs them to fill its rows (splice_balance.go).
//   - Fill exact: once little room is left, of the most related pieces those are taken that fill it exactly
//     (splice_row.go). A root
//     whose row can not be filled waits a little, and others are tried. Where that happens often, as with documents of
//     one length,
//     rows keep what is related and are padded (splice_padded.go).
//   - A flush drafts related rows and packs others by length, so that it pads hardly more than bucket would
//     (splice_flush.go).
//   - Fill trim: the document that does not fit any more is cut, and what is left of it dropped.
//   - invariant 5: questions for related pieces that have an answer are at most two for each piece of a row, and beside
//     these one for
//     every earned documents, once twice as many as may be asked in vain, and once those of one row. For every row at
//     most roots have none, and
//     as many as it has pieces.
//
// Its state is the waiting pieces in order of arrival, which of them wait as roots, how many questions it may ask in
// vain, what Detail returns, and what arrived of which class. What the pieces are about is not part of it: after a
// RestoreState the Packer needs their hints again (Hint).
type splice struct {
	bucket
	relates  *related.Config
	index    *related.Index
	unhinted map[uint64]int32 // documents restored, not yet hinted -> piece
	later    []int64          // by piece: number of documents from which on it may be a root again
	spare    int64            // questions that may be asked in vain (unit: 1/earned)
	asked    int64            // questions that had an answer, since the Packer was made
	answers  []related.Candidate
	fill     filling
	padded   padded
	ends     ends
	balance  balance

	// Of a flush, empty between calls.
	other     *bucket // packs by length, nil before the first flush
	otherRows aside   // what it made last
}

// spliceAges is the bound on ages, in pools, where none is configured.
const spliceAges = 3

func newSplice(c Config) Packer {
	t := newTally(c)
	p := &splice{bucket: bucket{tally: t, stock: newStock(t.longest, len(t.lengths)), patience: patience(c, spliceAges)},
		relates: c.Related(), spare: spareMost}
	p.stock.credit = p.mostCredit()
	p.left = p.forget
	p.balance = newBalance(t.lengths)
	p.index = related.New(*p.relates)
	p.fill = newFilling(t.longest)
	return p
}

// Hinted is a Packer to which it matters what documents are about. After a RestoreState the hint of every document that
// waits has to be given before the next Add or Flush.
type Hinted interface {
	Packer
	// Unhinted returns the documents whose hints are missing, in order.
	Unhinted() []uint64
	// Hint gives the hint of one of them: what Add was given with it.
	Hint(document uint64, h *related.Hint)
}

func (p *splice) Unhinted() []uint64 {
	out := make([]uint64, 0, len(p.unhinted))
	for d := range p.unhinted {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

func (p *splice) Hint(document uint64, h *related.Hint) {
	i, ok := p.unhinted[document]
	if !ok {
		panic(fmt.Sprintf("packonline: no hint of document %d is missing", document))
	}
	delete(p.unhinted, document)
	p.know(i, h)
}

func (p *splice) know(i int32, h *related.Hint) {
	w := &p.stock.items[i]
	p.index.Add(i, related.Entry{Seq: w.doc, Length: w.length, Hint: h})
}

func (p *splice) forget(i int32) {
	p.index.Remove(i)
	p.balance.leave(p.stock.items[i].length)
}

func (p *splice) Add(d Doc, out *Rows) {
	p.ready()
	p.arrive(d)
	p.spare = min(p.spare+1, spareMost)
	if !p.relates.Says(d.Hint) {
		p.ends.silent++
	}
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	if start := p.cut(d, out); start < d.Length {
		class := bucketFor(p.lengths, d.Length-start)
		i := p.stock.add(waiting{d.Seq, p.now(), start, d.Length - start}, class)
		p.balance.arrive(d.Length - start)
		for int(i) >= len(p.later) {
			p.later = append(p.later, 0)
		}
		p.later[i] = 0
		p.know(i, d.Hint)
	}
	for w := p.stock.oldest(); w != nil && p.now()-w.arrived >= p.patience; w = p.stock.oldest() {
		p.force(out)
	}
	for p.stock.pieces > p.config.Pool {
		p.next(out)
	}
	p.earn(d.Length, spliceCredit)
	if p.now()%int64(latelyPools*p.config.Pool) == 0 {
		p.balance.halve()
	}
}

// spliceCredit is how many times the credit of bucket a document brings: to look for related pieces takes longer than
// any search by length.
const spliceCredit = 16

// ready panics while hints are missing: rows would come out other than without the restart.
func (p *splice) ready() {
	if len(p.unhinted) > 0 {
		panic(fmt.Sprintf("packonline: %d restored documents have no hint", len(p.unhinted)))
	}
}

// How many of the oldest pieces are tried as the root of a row, and for how many documents one that failed waits.
const (
	roots  = 64
	retire = 256
)

// Roots that fail ask in vain. So many questions may be spent on that at once, and each document brings 1/earned of
// one. As many may be owed before roots are no more asked for rows that are padded either.
const (
	earned    = 8
	spareMost = 2048 * earned
)

// next emits a row around one of the oldest pieces.
func (p *splice) next(out *Rows) {
	if p.config.Splice.Fill == "trim" {
		p.trim(p.draw(), out)
		return
	}
	if len(p.lengths) > 1 && p.root(p.stock.need(p.balance.most()), classRoots, out) {
		return
	}
	if p.root(&p.stock.ages, roots, out) {
		return
	}
	if !p.insist(out) {
		p.byLength(func() { p.makeRoom(out) })
	}
}

// root emits a row around one of the oldest pieces of a list, of so many at most, and reports whether it did.
func (p *splice) root(l *list, most int, out *Rows) bool {
	i := l.first
	for n := 0; i != none && n < most && p.spare > 0; n++ {
		newer := p.stock.newer(l, i)
		if p.later[i] <= p.now() {
			if p.related(i, out) {
				return true
			}
			p.later[i] = p.now() + retire
		}
		i = newer
	}
	return false
}

// force emits a row around the oldest piece.
func (p *splice) force(out *Rows) {
	i := p.stock.ages.first
	if p.config.Splice.Fill == "trim" {
		p.trim(i, out)
		return
	}
	n := p.stock.items[i].length
	if p.spare > 0 {
		if p.related(i, out) {
			return
		}
		full := false
		if p.byLength(func() { full = p.tight(n, out) || p.exact(n, out) }); full {
			return
		}
	}
	if p.insist(out) {
		return
	}
	p.byLength(func() {
		if !p.tight(n, out) && !p.exact(n, out) {
			p.pad(n, out)
		}
	})
}

func (p *splice) AppendState(b []byte) []byte {
	b = p.bucket.AppendState(b)
	// for every piece for how many documents it may not be a root
	for i := p.stock.ages.first; i != none; i = p.stock.newer(&p.stock.ages, i) {
		b = binary.AppendUvarint(b, uint64(max(0, p.later[i]-p.now())))
	}
	return p.balance.append(p.ends.append(binary.AppendVarint(b, p.spare)))
}

func (p *splice) RestoreState(b []byte) ([]byte, error) {
	t, stock, rest, err := p.readStock(b)
	if err != nil {
		return nil, err
	}
	r := reader{b: rest}
	later := make([]int64, stock.pieces)
	unhinted := make(map[uint64]int32, stock.pieces)
	for i := stock.ages.first; i != none; i = stock.newer(&stock.ages, i) {
		if n := r.number("documents to wait", retire); n > 0 {
			later[i] = t.now() + n
		}
		unhinted[stock.items[i].doc] = i
	}
	spare := r.varint()
	if spare > spareMost || spare < -spareMost-earned*int64(t.longest) {
		r.fail(fmt.Errorf("state has %d/%d questions to spare", spare, earned))
	}
	e := r.ends(t.counts)
	balance := r.balance(t.counts, stock, p.lengths)
	if r.err != nil {
		return nil, fmt.Errorf("restore packer: %w", r.err)
	}
	p.tally, p.stock, p.later, p.unhinted, p.index = t, stock, later, unhinted, related.New(*p.relates)
	p.spare, p.ends, p.balance = spare, e, balance
	return r.b, nil
}

// draw is a random piece, the paper's root.
func (p *splice) draw() int32 {
	i := p.stock.ages.first
	for range keyed(p.config.Seed, uint64(p.counts.Rows), uint64(p.counts.Slots)) % uint64(p.stock.pieces) {
		i = p.stock.newer(&p.stock.ages, i)
	}
	return i
}

// arrange permutes the pieces of the row under construction, where their order is to be random.
func (p *splice) arrange() {
	if p.config.Splice.Order != "shuffle" {
		return
	}
	for i := len(p.row) - 1; i > 0; i-- {
		k := keyed(p.config.Seed, uint64(p.counts.Rows), math.MaxUint64-uint64(i)) % uint64(i+1)
		p.row[i], p.row[k] = p.row[k], p.row[i]
	}
}

// keyed hashes a seed and two numbers (the finalizer of MurmurHash3, once for each).
func keyed(seed, a, b uint64) uint64 {
	x := seed
	for _, y := range []uint64{a, b} {
		x += y + 0x9e3779b97f4a7c15
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
		x ^= x >> 33
	}
	return x
}
