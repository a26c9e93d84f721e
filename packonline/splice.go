package packonline

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"loaderd/packonline/similarity"
)

// splice packs related documents into one row (Structured Packing in LLM Training Improves Long Context Utilization,
// Algorithm 1), online, from a bounded pool. A row begins with a root and continues, breadth first, with the k
// documents of the pool that are most related to each of its documents. It differs from bucket only in the choice of
// pieces. Lengths, cuts, padding, and the bounds on pool and age are those of bucket, and so are its invariants 2 to
// 4 if Fill is exact.
//
//   - The root is the oldest piece. This is as good as the paper's random root, and no piece becomes old. With
//     several row lengths, it is the oldest of the pieces that need a row of one length, the length of which too many
//     are buffered. If Fill is trim it is random.
//   - Short pieces are kept for a flush, which needs them to fill its rows (splice_balance.go).
//   - Fill exact: once little room is left, those of the most related pieces are taken that fill it exactly
//     (splice_row.go). A root whose row cannot be filled is retried later, and others are tried. If that happens
//     often, for example with documents of one length, rows consist of related pieces and are padded
//     (splice_padded.go).
//   - A flush drafts related rows and packs other pieces by length, so that it pads hardly more than bucket would
//     (splice_flush.go).
//   - Fill trim: the document that exceeds the row is cut, and the rest of it is dropped.
//   - invariant 5 bounds the queries for related pieces that have a result. At most two are made per piece of a row.
//     In addition, one is made per earned documents, once twice as many as may be made without success, and once
//     those of one row. Of queries without a result, at most roots plus the number of its pieces are made per row.
//
// Its state is the buffered pieces in order of arrival with their wait as roots, and the number of queries that may
// be made without success. It also has the result of Detail and the arrived tokens by class. Hints of the pieces are
// not part of it: after RestoreState the Packer needs them again (Hint).
type splice struct {
	bucket
	relates  *similarity.Config
	index    *similarity.Index
	unhinted map[uint64]int32 // restored documents without a hint -> piece
	later    []int64          // by piece: number of documents from which on it may be a root again
	spare    int64            // queries that may be made without success (unit: 1/earned)
	asked    int64            // queries with a result, since the creation of the Packer
	answers  []similarity.Candidate
	fill     filling
	padded   padded
	ends     ends
	balance  balance

	// Only used in a flush, empty between calls.
	other     *bucket // packs by length, nil before the first flush
	otherRows aside   // its latest output
}

// spliceAges is the bound on ages, in pools, if none is configured.
const spliceAges = 3

func newSplice(c Config) Packer {
	t := newTally(c)
	p := &splice{bucket: bucket{tally: t, stock: newStock(t.longest, len(t.lengths)), patience: patience(c, spliceAges)},
		relates: c.Related(), spare: spareMost}
	p.stock.credit = p.mostCredit()
	p.left = p.forget
	p.balance = newBalance(t.lengths)
	p.index = similarity.New(*p.relates)
	p.fill = newFilling(t.longest)
	return p
}

// Hinted is a Packer that uses similarity hints. After RestoreState the hint of every buffered document must be
// passed to Hint before the next Add or Flush.
type Hinted interface {
	Packer
	// Unhinted returns the documents whose hints are missing, in order.
	Unhinted() []uint64
	// Hint sets the missing hint of a document, which must equal the one passed to Add.
	Hint(document uint64, h *similarity.Hint)
}

func (p *splice) Unhinted() []uint64 {
	out := make([]uint64, 0, len(p.unhinted))
	for d := range p.unhinted {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

func (p *splice) Hint(document uint64, h *similarity.Hint) {
	i, ok := p.unhinted[document]
	if !ok {
		panic(fmt.Sprintf("packonline: no hint of document %d is missing", document))
	}
	delete(p.unhinted, document)
	p.know(i, h)
}

func (p *splice) know(i int32, h *similarity.Hint) {
	w := &p.stock.items[i]
	p.index.Add(i, similarity.Entry{Seq: w.doc, Length: w.length, Hint: h})
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

// spliceCredit is the factor by which a document's credit exceeds that in bucket, because a search for related pieces
// takes longer than any search by length.
const spliceCredit = 16

// ready panics while hints are missing, because rows would differ from those without a restart.
func (p *splice) ready() {
	if len(p.unhinted) > 0 {
		panic(fmt.Sprintf("packonline: %d restored documents have no hint", len(p.unhinted)))
	}
}

// Number of oldest pieces that are tried as the root of a row, and number of documents until a failed root may be
// tried again.
const (
	roots  = 64
	retire = 256
)

// Queries for roots that fail are unsuccessful. They are limited by a budget of at most spareMost/earned queries, to
// which each document adds 1/earned. After a debt of the same size, roots are not queried for padded rows either.
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

// root emits a row around one of the oldest most pieces of a list, and reports whether it did.
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
	// for each piece, the number of documents until it may be a root again
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
	p.tally, p.stock, p.later, p.unhinted, p.index = t, stock, later, unhinted, similarity.New(*p.relates)
	p.spare, p.ends, p.balance = spare, e, balance
	return r.b, nil
}

// draw returns a random piece, the root in the paper.
func (p *splice) draw() int32 {
	i := p.stock.ages.first
	for range keyed(p.config.Seed, uint64(p.counts.Rows), uint64(p.counts.Slots)) % uint64(p.stock.pieces) {
		i = p.stock.newer(&p.stock.ages, i)
	}
	return i
}

// arrange permutes the pieces of the row under construction if their order is configured to be random.
func (p *splice) arrange() {
	if p.config.Splice.Order != "shuffle" {
		return
	}
	for i := len(p.row) - 1; i > 0; i-- {
		k := keyed(p.config.Seed, uint64(p.counts.Rows), math.MaxUint64-uint64(i)) % uint64(i+1)
		p.row[i], p.row[k] = p.row[k], p.row[i]
	}
}

// keyed returns a hash of a seed and two numbers (the finalizer of MurmurHash3, once per number).
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
