package packonline

import (
	"encoding/binary"
	"fmt"
)

// bucket packs into rows of one or several lengths, and fills them exactly, from a bounded pool. A document longer
// than the longest row is cut into full rows, which are emitted immediately, and a remainder. Remainders and shorter
// documents are buffered, one piece per document.
//
//   - Immediate pairs. If an arriving piece and a buffered one fill a row, both are emitted in it. Pieces that nearly
//     fill a row need rare counterparts. This way each of them is compared with all pieces that arrive while it is
//     buffered.
//   - The oldest first. When the pool is full or a piece reaches MaxAge, a row is built around the oldest piece, with
//     the fewest pieces that fill it exactly. Rows of several lengths are no longer than their pieces need
//     (bucket_exact.go). Long rows are filled first with pieces that need long rows themselves (bucket_fill.go).
//   - Padding last. Only if nothing completes a piece that must be emitted is its row padded: the shortest row with
//     little padding.
//
// Guarantees:
//
//   - invariant 2: no document that fits the longest row is split.
//   - invariant 3: after Add at most Pool pieces are buffered, and at most MaxAge if that is less.
//   - invariant 4: no piece is older than MaxAge when it is emitted. Without a MaxAge no piece waits for more than 16
//     Pool documents. With a holdback and several row lengths it waits for at most half of MaxAge and two Pool
//     documents.
//   - invariant 5: the work per document is bounded for all lengths. A document causes at most one row because of age
//     and one because of the pool's size, in addition to its own rows. Searches for these rows are paid from a credit
//     that each document adds to (bucket_credit.go). Beyond the saved credit, only the pieces of one row are taken
//     without payment.
//
// Its state is only the buffered pieces in order of arrival and the credit for searches.
type bucket struct {
	packerBase
	pool     *indexedPool
	row      []int32 // pieces of the row under construction, taken from the stock
	maxWait  int64   // maximum number of documents for which a piece waits
	onRemove func(piece int32)
}

// Bounds on ages in pools, if MaxAge is 0. Without a bound, immediate pairs could pass over a piece forever. With a
// holdback and several row lengths, long pieces would wait until they must be emitted. That would not reduce padding,
// because the shortest rows are the first to be tight. Short documents would then precede long ones by more than a
// holdback can correct.
const (
	maxWaitPools = 16
	heldPools    = 2
)

func newBucket(c Config) Packer {
	t := newTally(c)
	p := &bucket{packerBase: t, pool: newIndexedPool(t.longest, len(t.lengths)),
		maxWait: maxWaitDocuments(c, maxWaitPools)}
	if c.Held() > 0 && len(t.lengths) > 1 {
		p.maxWait = max(1, min(p.maxWait/2, heldPools*int64(c.Pool)))
	}
	p.pool.credit = p.maxCredit()
	return p
}

// maxWaitDocuments returns the bound on ages in documents, or the given number of pools if no bound is configured.
func maxWaitDocuments(c Config, pools int) int64 {
	if most := c.packerMaxAge(); most > 0 {
		return int64(most)
	}
	return int64(pools) * int64(c.Pool)
}

func (p *bucket) Add(d Doc, out *Rows) {
	p.countDocument(d)
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	if start := p.emitFullRows(d, out); start < d.Length {
		p.emitPairOrBuffer(bufferedPiece{d.Seq, p.now(), start, d.Length - start}, out)
	}
	for w := p.pool.oldest(); w != nil && p.now()-w.arrived >= p.maxWait; w = p.pool.oldest() {
		n := w.length
		if !p.emitTight(n, out) && !p.emitExact(n, out) {
			p.emitPadded(n, out)
		}
	}
	if p.pool.pieces > p.config.Pool {
		p.makeRoom(out)
	}
	p.addCredit(d.Length, 1)
}

// emitPairOrBuffer emits a new piece in a row that it fills alone or with a buffered piece, the oldest suitable one.
// Otherwise the piece is buffered.
func (p *bucket) emitPairOrBuffer(w bufferedPiece, out *Rows) {
	class := bucketFor(p.lengths, w.length)
	var length int32
	var partner *bufferedPiece
	for _, l := range p.lengths[class:] {
		if l == w.length {
			length, partner = l, nil
			break
		}
		if p.config.MaxDocumentsPerRow == 1 {
			continue
		}
		if x := p.pool.oldestOfLength(l - w.length); x != nil && (partner == nil || x.arrived < partner.arrived) {
			length, partner = l, x
		}
	}
	if length == 0 {
		p.pool.add(w, class)
		return
	}
	if partner != nil {
		p.addOldest(partner.length)
	}
	used := p.emitPieces(out)
	out.add(Piece{w.doc, w.start, w.length}, 0)
	p.closeRow(length, used+w.length, out)
}

// Number of rows that are tried around the oldest pieces when the pool is full, without and with padding. Trying more
// leaves older pieces in the pool.
const (
	fullRowTries   = 16
	paddedRowTries = 32
)

// makeRoom emits a row around one of the oldest pieces: the oldest one with a tight row, else one with an exactly
// full row, else the one with the fullest row.
func (p *bucket) makeRoom(out *Rows) {
	seeds := max(1, fullRowTries/len(p.lengths))
	if p.pool.tryOldest(seeds, 0, func(n int32) bool { return p.emitTight(n, out) }) ||
		p.pool.tryOldest(seeds, 0, func(n int32) bool { return p.emitExact(n, out) }) {
		return
	}
	var seed int32
	var best fraction
	p.pool.tryOldest(max(1, paddedRowTries/len(p.lengths)), min(p.pool.credit, 0)-creditGuess, func(n int32) bool {
		if s := p.leastPadding(n); best.of == 0 || s.less(best) {
			seed, best = n, s
		}
		return false
	})
	p.emitPadded(seed, out)
}

// Flush packs the buffered pieces, the longest ones first, because they have the fewest possible partners. Then it
// pads the rest.
func (p *bucket) Flush(out *Rows) {
	p.pool.credit += creditFlush * p.pool.pieces
	for n := p.pool.longestAtMost(p.longest); n != none; n = p.pool.longestAtMost(n - 1) {
		for p.pool.hasLength(n) && (p.emitTight(n, out) || p.emitExact(n, out)) {
		}
	}
	for n := p.pool.longestAtMost(p.longest); n != none; n = p.pool.longestAtMost(p.longest) {
		p.emitPadded(n, out)
	}
	p.pool.credit = p.maxCredit()
}

// addOldest adds the oldest piece of a length to the row under construction.
func (p *bucket) addOldest(n int32) { p.row = append(p.row, p.pool.takeOldest(n)) }

// putBack puts all but the first keep pieces of the row under construction back into the stock.
func (p *bucket) putBack(keep int) {
	for k := len(p.row) - 1; k >= keep; k-- {
		p.pool.putBack(p.row[k])
	}
	p.row = p.row[:keep]
}

// emit completes the row under construction.
func (p *bucket) emit(length int32, out *Rows) {
	used := p.emitPieces(out)
	p.closeRow(length, used, out)
}

// emitPieces emits the pieces of the row under construction, and returns the number of their tokens.
func (p *bucket) emitPieces(out *Rows) (used int32) {
	p.pool.credit += moveCost * len(p.row) // refund the cost of taking pieces that are emitted
	for _, i := range p.row {
		w := &p.pool.items[i].bufferedPiece
		out.add(Piece{w.doc, w.start, w.length}, p.age(*w))
		used += w.length
		p.removeItem(i)
	}
	p.row = p.row[:0]
	return used
}

// removeItem releases the number of a taken piece.
func (p *bucket) removeItem(i int32) {
	if p.onRemove != nil {
		p.onRemove(i)
	}
	p.pool.freeItem(i)
}

func (p *bucket) Pending() Pending { return p.pending(p.pool.pieces, p.pool.oldest()) }

func (p *bucket) Each(f func(Piece)) { eachPiece(f, p.pool.listPieces()) }

func (p *bucket) AppendState(b []byte) []byte {
	return binary.AppendUvarint(p.appendState(b, p.pool.listPieces()), uint64(p.maxCredit()-p.pool.credit))
}

func (p *bucket) RestoreState(b []byte) ([]byte, error) {
	t, stock, rest, err := p.readPool(b)
	if err != nil {
		return nil, err
	}
	for _, l := range p.lengths {
		if w := stock.oldestOfLength(l); w != nil {
			return nil, fmt.Errorf("restore packer: tokens [%d, +%d) of document %d fill a row and wait", w.start,
				w.length, w.doc)
		}
	}
	p.packerBase, p.pool = t, stock
	return rest, nil
}

// readPool reads the totals, the buffered pieces and the credit of a state.
func (p *bucket) readPool(b []byte) (t packerBase, s *indexedPool, rest []byte, err error) {
	t, lists, rest, err := p.readState(b, 1)
	if err != nil {
		return t, nil, nil, err
	}
	pool := lists[0]
	if len(pool) > p.config.Pool {
		return t, nil, nil, fmt.Errorf("restore packer: %d pieces wait in a pool of %d", len(pool), p.config.Pool)
	}
	if err := checkOrder(pool); err != nil {
		return t, nil, nil, err
	}
	s = newIndexedPool(p.longest, len(p.lengths))
	for _, w := range pool {
		class := bucketFor(p.lengths, w.length)
		switch {
		case w.start%p.longest != 0 || w.length == p.longest:
			return t, nil, nil, fmt.Errorf("restore packer: tokens [%d, +%d) of document %d are no remainder of rows of %d",
				w.start, w.length, w.doc, p.longest)
		case t.now()-w.arrived >= p.maxWait:
			return t, nil, nil, fmt.Errorf("restore packer: a piece of document %d is %d documents old, the bound is %d", w.doc,
				t.now()-w.arrived, p.maxWait)
		}
		s.add(w, class)
	}
	r := reader{b: rest}
	s.credit = p.maxCredit() - int(r.number("of the credit spent", 2*int64(p.maxCredit())))
	if r.err != nil {
		return t, nil, nil, fmt.Errorf("restore packer: %w", r.err)
	}
	return t, s, r.b, nil
}
