package packonline

import "fmt"

// bfd is best-fit-decreasing (Fewer Truncations, Algorithm 1) over a bounded pool. A document longer than L is cut into full rows,
// which are emitted at once, and a remainder; remainders and shorter documents wait in the pool, at most one piece a document.
//
// A pass packs the whole pool into rows. Full rows are emitted. The pieces of the others go back to the pool for the next pass,
// save the rows that must not wait: those with a piece that is about to be too old, and, where that frees too little, the fullest.
//
//   - invariant 2: no document of at most L tokens is split.
//   - invariant 3: after Add at most Pool pieces wait, and at most MaxAge, if that is less: the pool then never fills, and passes
//     come from age alone.
//   - invariant 4: with a MaxAge, no piece is older when it is emitted. A piece that would be after one more document leaves now.
//   - invariant 5: a document costs a bounded number of visits to pieces, whatever the lengths. A pass for room frees an eighth
//     of the pool, so there are at most 8 visits for each piece that comes. A pass for age leaves no piece that is within
//     MaxAge/32 of the bound, so there is one in MaxAge/32 documents over at most MaxAge pieces: 32 visits for each document.
type bfd struct {
	tally
	pool []waiting // in order of arrival
	bins *bins
}

// Shares of the bounds that a pass clears beyond the bare need, so that the next pass is not due at once (invariant 5). Leaving
// early is what pads, hence the smaller share for age.
const (
	roomShare = 8
	ageShare  = 32
)

func newBFD(c Config) Packer {
	t := newTally(c)
	return &bfd{tally: t, bins: newBins(t.longest)}
}

func (p *bfd) Add(d Doc, out *Rows) {
	p.arrive(d)
	if d.Length > p.longest {
		p.counts.Truncated++
	}
	start, left := int32(0), d.Length
	for ; left >= p.longest; start, left = start+p.longest, left-p.longest {
		out.add(Piece{d.Seq, start, p.longest}, 0)
		p.close(p.longest, p.longest, out)
	}
	if left > 0 {
		p.pool = append(p.pool, waiting{d.Seq, p.now(), start, left})
	}
	switch {
	case len(p.pool) > p.config.Pool:
		p.pass(p.config.Pool-p.config.Pool/roomShare, out)
	case len(p.pool) > 0 && p.due(p.pool[0], 0):
		p.pass(p.config.Pool, out)
	}
}

func (p *bfd) Flush(out *Rows) {
	p.pass(0, out)
}

// pass packs the pool and emits full rows, rows with a piece that is nearly due, and then the fullest until at most keep pieces wait.
func (p *bfd) pass(keep int, out *Rows) {
	p.bins.pack(p.pool)
	early := p.config.MaxAge / ageShare
	wait := len(p.pool)
	for i := range p.bins.all {
		b := &p.bins.all[i]
		if b.used == p.longest || p.due(p.pool[b.oldest], early) {
			wait -= p.emit(b, out)
		}
	}
	for b := p.bins.fullest(); b != nil && wait > keep; b = p.bins.next(b) {
		if p.pool[b.first].length > 0 {
			wait -= p.emit(b, out)
		}
	}
	kept := p.pool[:0]
	for _, w := range p.pool {
		if w.length > 0 {
			kept = append(kept, w)
		}
	}
	p.pool = kept
}

// emit closes a row with the pieces of a bin, sets their lengths in the pool to 0, and returns their number.
func (p *bfd) emit(b *bin, out *Rows) (pieces int) {
	for i := b.first; i != none; i = p.bins.link[i] {
		w := &p.pool[i]
		out.add(Piece{w.doc, w.start, w.length}, p.age(*w))
		w.length = 0
		pieces++
	}
	p.close(p.longest, b.used, out)
	return pieces
}

func (p *bfd) Pending() Pending { return p.pending(len(p.pool), first(p.pool)) }

func (p *bfd) AppendState(b []byte) []byte { return p.appendState(b, p.pool) }

func (p *bfd) RestoreState(b []byte) ([]byte, error) {
	t, lists, rest, err := p.readState(b, 1)
	if err != nil {
		return nil, err
	}
	pool := lists[0]
	if len(pool) > p.config.Pool {
		return nil, fmt.Errorf("restore packer: %d pieces wait in a pool of %d", len(pool), p.config.Pool)
	}
	if err := inOrder(pool); err != nil {
		return nil, err
	}
	for _, w := range pool {
		if w.start%p.longest != 0 || w.length == p.longest {
			return nil, fmt.Errorf("restore packer: tokens [%d, +%d) of document %d are no remainder of rows of %d", w.start, w.length, w.doc, p.longest)
		}
	}
	p.tally, p.pool = t, pool
	return rest, nil
}
