package packonline

import "fmt"

// binPacker packs a bounded pool repeatedly with a fit that takes pieces in descending order of length. A document
// longer than L is cut into full rows, which are emitted immediately, and a remainder. Remainders and shorter
// documents are buffered in the pool, at most one piece per document.
//
// A pass packs the whole pool into bins. Full bins are emitted as rows. The pieces of other bins return to the pool
// for the next pass, except those of bins that must not wait. These are the bins with a piece that is nearly too old
// and, if that frees too little, the fullest bins. Pieces that are nearly too old are put into bins before longer
// ones. So they share few bins, which other pieces then fill. Otherwise a short one in the last bin would cause an
// almost empty row. A pool that holds all pieces is packed once, by the flush, regardless of ages: the offline
// algorithm.
//
//   - invariant 2: no document of at most L tokens is split.
//   - invariant 3: after Add at most Pool pieces are buffered, and at most MaxAge if that is less. Then the pool is
//     never full, and passes are only caused by age.
//   - invariant 4: with a MaxAge, no piece is older when it is emitted. A piece that would be older after one more
//     document is emitted now.
//   - invariant 5: a document costs a bounded number of visits to pieces, for all lengths. A pass for room frees an
//     eighth of the pool, so at most 8 visits are made per arriving piece. A pass for age leaves no piece that is
//     within MaxAge/32 of the bound. So at most one such pass is made per MaxAge/32 documents, over at most MaxAge
//     pieces: 32 visits per document.
type binPacker struct {
	packerBase
	pool []bufferedPiece // in order of arrival
	bins *bins           // of capacity L + Extra; a bin of more than L tokens loses the excess at its end
}

// Shares of the bounds that a pass clears beyond what is necessary, so that the next pass is not due immediately
// (invariant 5). Early emission causes padding, hence the smaller share for age.
const (
	roomShare = 8
	ageShare  = 32
)

func newBinPacker(c Config, first bool) binPacker {
	t := newTally(c)
	return binPacker{packerBase: t, bins: newBins(t.longest+int32(c.Extra), first, c.MaxDocumentsPerRow)}
}

func (p *binPacker) Add(d Doc, out *Rows) {
	p.countDocument(d)
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	p.bufferRemainder(d, p.emitFullRows(d, out))
	switch {
	case len(p.pool) > p.config.Pool:
		p.packPool(p.targetPieces(), out)
	case len(p.pool) > 0 && p.isDue(p.pool[0], 0):
		p.packPool(p.config.Pool, out)
	}
}

func (p *binPacker) Flush(out *Rows) { p.packPool(0, out) }

// bufferRemainder puts the remainder of a document into the pool. The pool's capacity doubles up to the maximum number
// of pieces.
func (p *binPacker) bufferRemainder(d Doc, start int32) {
	if start == d.Length {
		return
	}
	if n := len(p.pool); n == cap(p.pool) {
		grown := make([]bufferedPiece, n, min(max(2*n, 64), p.config.Pool+1))
		copy(grown, p.pool)
		p.pool = grown
	}
	p.pool = append(p.pool, bufferedPiece{d.Seq, p.now(), start, d.Length - start})
}

// targetPieces returns the maximum number of buffered pieces after a pass for room.
func (p *binPacker) targetPieces() int { return p.config.Pool - p.config.Pool/roomShare }

// packPool packs the pool and emits full rows, rows with a piece that is nearly due, and then the fullest until at most
// keep pieces are buffered.
func (p *binPacker) packPool(keep int, out *Rows) {
	early := p.maxAge / ageShare
	p.fillBins(keep, early)
	if keep == 0 {
		out.grow(len(p.pool), len(p.bins.all))
	}
	wait := len(p.pool)
	for i := range p.bins.all {
		b := &p.bins.all[i]
		if b.used >= p.longest || keep > 0 && p.isDue(p.pool[b.oldest], early) {
			wait -= p.emit(b, out)
		}
	}
	for b := p.bins.fullestBin(1); b != nil && wait > keep; b = p.bins.nextFullest(b) {
		if p.isPending(b) {
			wait -= p.emit(b, out)
		}
	}
	p.compact()
}

// fillBins packs the pool, with the nearly due pieces as urgent ones. If keep is 0, no piece is urgent, and the pool
// loses its order of arrival.
func (p *binPacker) fillBins(keep, early int) {
	if keep == 0 {
		sorted := make([]bufferedPiece, len(p.pool))
		p.bins.pack(p.pool, 0, sorted)
		p.pool = sorted
		return
	}
	urgent := 0
	for urgent < len(p.pool) && p.isDue(p.pool[urgent], early) {
		urgent++
	}
	p.bins.pack(p.pool, urgent, nil)
}

// isPending reports whether the pieces of a bin are still in the pool.
func (p *binPacker) isPending(b *bin) bool { return p.pool[b.oldest].length > 0 }

// emit emits a row with the pieces of a bin, sets their lengths in the pool to 0, and returns their number. Tokens
// beyond the row's length are dropped.
func (p *binPacker) emit(b *bin, out *Rows) (pieces int) {
	left := p.longest
	for r := b.first; r != none; r = p.bins.nextRank[r] {
		w := &p.pool[p.bins.order[r]]
		if n := min(w.length, left); n > 0 {
			out.add(Piece{w.doc, w.start, n}, p.age(*w))
			left -= n
		}
		w.length = 0
		pieces++
	}
	p.closeRow(p.longest, p.longest-left, out)
	p.counts.Dropped += int64(max(0, b.used-p.longest))
	return pieces
}

// compact removes the pieces that have left from the pool.
func (p *binPacker) compact() {
	kept := p.pool[:0]
	for _, w := range p.pool {
		if w.length > 0 {
			kept = append(kept, w)
		}
	}
	p.pool = kept
}

func (p *binPacker) Pending() Pending { return p.pending(len(p.pool), firstPiece(p.pool)) }

func (p *binPacker) Each(f func(Piece)) { eachPiece(f, p.pool) }

func (p *binPacker) AppendState(b []byte) []byte { return p.appendState(b, p.pool) }

func (p *binPacker) RestoreState(b []byte) ([]byte, error) {
	t, lists, rest, err := p.readState(b, 1)
	if err != nil {
		return nil, err
	}
	if err := p.checkPool(lists[0], len(lists[0])); err != nil {
		return nil, err
	}
	p.packerBase, p.pool = t, lists[0]
	return rest, nil
}

// checkPool returns an error if the pieces cannot be the pool; all is the total number of buffered pieces.
func (p *binPacker) checkPool(pool []bufferedPiece, all int) error {
	if all > p.config.Pool {
		return fmt.Errorf("restore packer: %d pieces wait in a pool of %d", all, p.config.Pool)
	}
	if err := checkOrder(pool); err != nil {
		return err
	}
	for _, w := range pool {
		if w.start%p.longest != 0 || w.length >= p.longest {
			return fmt.Errorf("restore packer: tokens [%d, +%d) of document %d are no remainder of rows of %d", w.start,
				w.length, w.doc, p.longest)
		}
	}
	return nil
}
