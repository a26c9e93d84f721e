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
	similarityConfig *similarity.Config
	index            *similarity.Index
	missingHints     map[uint64]int32 // restored documents without a hint -> piece
	retryAt          []int64          // by piece: number of documents from which on it may be a root again
	queryBudget      int64            // queries that may be made without success (unit: 1/earned)
	queries          int64            // queries with a result, since the creation of the Packer
	candidates       []similarity.Candidate
	fill             exactFiller
	bestEnd          paddedEnd
	endCounts        rowEndCounts
	balance          classBalance

	// Only used in a flush, empty between calls.
	lengthPacker *bucket       // packs by length, nil before the first flush
	lengthRows   lengthPacking // its latest output
}

// spliceMaxWaitPools is the bound on ages, in pools, if none is configured.
const spliceMaxWaitPools = 3

func newSplice(c Config) Packer {
	t := newTally(c)
	p := &splice{bucket: bucket{packerBase: t, pool: newIndexedPool(t.longest, len(t.lengths)),
		maxWait: maxWaitDocuments(c, spliceMaxWaitPools)},
		similarityConfig: c.SimilarityConfig(), queryBudget: maxQueryBudget}
	p.pool.credit = p.maxCredit()
	p.onRemove = p.unindexPiece
	p.balance = newClassBalance(t.lengths)
	p.index = similarity.New(*p.similarityConfig)
	p.fill = newExactFiller(t.longest)
	return p
}

// HintedPacker is a Packer that uses similarity hints. After RestoreState the hint of every buffered document must be
// passed to Hint before the next Add or Flush.
type HintedPacker interface {
	Packer
	// MissingHints returns the documents whose hints are missing, in order.
	MissingHints() []uint64
	// SetHint sets the missing hint of a document, which must equal the one passed to Add.
	SetHint(document uint64, h *similarity.Hint)
}

func (p *splice) MissingHints() []uint64 {
	out := make([]uint64, 0, len(p.missingHints))
	for d := range p.missingHints {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

func (p *splice) SetHint(document uint64, h *similarity.Hint) {
	i, ok := p.missingHints[document]
	if !ok {
		panic(fmt.Sprintf("packonline: no hint of document %d is missing", document))
	}
	delete(p.missingHints, document)
	p.indexPiece(i, h)
}

func (p *splice) indexPiece(i int32, h *similarity.Hint) {
	w := &p.pool.items[i]
	p.index.Add(i, similarity.Entry{Seq: w.doc, Length: w.length, Hint: h})
}

func (p *splice) unindexPiece(i int32) {
	p.index.Remove(i)
	p.balance.removePiece(p.pool.items[i].length)
}

func (p *splice) Add(d Doc, out *Rows) {
	p.requireHints()
	p.countDocument(d)
	p.queryBudget = min(p.queryBudget+1, maxQueryBudget)
	if !p.similarityConfig.HasData(d.Hint) {
		p.endCounts.withoutHint++
	}
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	if start := p.emitFullRows(d, out); start < d.Length {
		class := bucketFor(p.lengths, d.Length-start)
		i := p.pool.add(bufferedPiece{d.Seq, p.now(), start, d.Length - start}, class)
		p.balance.addPiece(d.Length - start)
		for int(i) >= len(p.retryAt) {
			p.retryAt = append(p.retryAt, 0)
		}
		p.retryAt[i] = 0
		p.indexPiece(i, d.Hint)
	}
	for w := p.pool.oldest(); w != nil && p.now()-w.arrived >= p.maxWait; w = p.pool.oldest() {
		p.emitOldest(out)
	}
	for p.pool.pieces > p.config.Pool {
		p.emitNext(out)
	}
	p.addCredit(d.Length, spliceCreditFactor)
	if p.now()%int64(halvingPools*p.config.Pool) == 0 {
		p.balance.halveArrived()
	}
}

// spliceCreditFactor is the factor by which a document's credit exceeds that in bucket, because a search for related
// pieces takes longer than any search by length.
const spliceCreditFactor = 16

// requireHints panics while hints are missing, because rows would differ from those without a restart.
func (p *splice) requireHints() {
	if len(p.missingHints) > 0 {
		panic(fmt.Sprintf("packonline: %d restored documents have no hint", len(p.missingHints)))
	}
}

// Number of oldest pieces that are tried as the root of a row, and number of documents until a failed root may be
// tried again.
const (
	maxRootTries   = 64
	rootRetryAfter = 256
)

// Queries for roots that fail are unsuccessful. They are limited by a budget of at most maxQueryBudget/earned queries,
// to which each document adds 1/earned. After a debt of the same size, roots are not queried for padded rows either.
const (
	budgetUnit     = 8
	maxQueryBudget = 2048 * budgetUnit
)

// emitNext emits a row around one of the oldest pieces.
func (p *splice) emitNext(out *Rows) {
	if p.config.Splice.Fill == "trim" {
		p.emitTrimmed(p.randomPiece(), out)
		return
	}
	if len(p.lengths) > 1 && p.tryRoots(p.pool.classList(p.balance.mostBuffered()), maxClassRootTries, out) {
		return
	}
	if p.tryRoots(&p.pool.byAge, maxRootTries, out) {
		return
	}
	if !p.emitRelatedPadded(out) {
		p.countByLength(func() { p.makeRoom(out) })
	}
}

// tryRoots emits a row around one of the oldest most pieces of a list, and reports whether it did.
func (p *splice) tryRoots(l *ageList, most int, out *Rows) bool {
	i := l.first
	for n := 0; i != none && n < most && p.queryBudget > 0; n++ {
		newer := p.pool.newerItem(l, i)
		if p.retryAt[i] <= p.now() {
			if p.emitRelated(i, out) {
				return true
			}
			p.retryAt[i] = p.now() + rootRetryAfter
		}
		i = newer
	}
	return false
}

// emitOldest emits a row around the oldest piece.
func (p *splice) emitOldest(out *Rows) {
	i := p.pool.byAge.first
	if p.config.Splice.Fill == "trim" {
		p.emitTrimmed(i, out)
		return
	}
	n := p.pool.items[i].length
	if p.queryBudget > 0 {
		if p.emitRelated(i, out) {
			return
		}
		full := false
		if p.countByLength(func() { full = p.emitTight(n, out) || p.emitExact(n, out) }); full {
			return
		}
	}
	if p.emitRelatedPadded(out) {
		return
	}
	p.countByLength(func() {
		if !p.emitTight(n, out) && !p.emitExact(n, out) {
			p.emitPadded(n, out)
		}
	})
}

func (p *splice) AppendState(b []byte) []byte {
	b = p.bucket.AppendState(b)
	// for each piece, the number of documents until it may be a root again
	for i := p.pool.byAge.first; i != none; i = p.pool.newerItem(&p.pool.byAge, i) {
		b = binary.AppendUvarint(b, uint64(max(0, p.retryAt[i]-p.now())))
	}
	return p.balance.appendState(p.endCounts.appendState(binary.AppendVarint(b, p.queryBudget)))
}

func (p *splice) RestoreState(b []byte) ([]byte, error) {
	t, stock, rest, err := p.readPool(b)
	if err != nil {
		return nil, err
	}
	r := reader{b: rest}
	later := make([]int64, stock.pieces)
	unhinted := make(map[uint64]int32, stock.pieces)
	for i := stock.byAge.first; i != none; i = stock.newerItem(&stock.byAge, i) {
		if n := r.number("documents to wait", rootRetryAfter); n > 0 {
			later[i] = t.now() + n
		}
		unhinted[stock.items[i].doc] = i
	}
	spare := r.varint()
	if spare > maxQueryBudget || spare < -maxQueryBudget-budgetUnit*int64(t.longest) {
		r.fail(fmt.Errorf("state has %d/%d questions to spare", spare, budgetUnit))
	}
	e := r.readEndCounts(t.counts)
	balance := r.readBalance(t.counts, stock, p.lengths)
	if r.err != nil {
		return nil, fmt.Errorf("restore packer: %w", r.err)
	}
	p.packerBase, p.pool, p.retryAt, p.missingHints, p.index = t, stock, later, unhinted,
		similarity.New(*p.similarityConfig)
	p.queryBudget, p.endCounts, p.balance = spare, e, balance
	return r.b, nil
}

// randomPiece returns a random piece, the root in the paper.
func (p *splice) randomPiece() int32 {
	i := p.pool.byAge.first
	for range keyedHash(p.config.Seed, uint64(p.counts.Rows), uint64(p.counts.Slots)) % uint64(p.pool.pieces) {
		i = p.pool.newerItem(&p.pool.byAge, i)
	}
	return i
}

// orderRow permutes the pieces of the row under construction if their order is configured to be random.
func (p *splice) orderRow() {
	if p.config.Splice.Order != "shuffle" {
		return
	}
	for i := len(p.row) - 1; i > 0; i-- {
		k := keyedHash(p.config.Seed, uint64(p.counts.Rows), math.MaxUint64-uint64(i)) % uint64(i+1)
		p.row[i], p.row[k] = p.row[k], p.row[i]
	}
}

// keyedHash returns a hash of a seed and two numbers (the finalizer of MurmurHash3, once per number).
func keyedHash(seed, a, b uint64) uint64 {
	x := seed
	for _, y := range []uint64{a, b} {
		x += y + 0x9e3779b97f4a7c15
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
		x ^= x >> 33
	}
	return x
}
