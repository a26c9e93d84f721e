package planner

import (
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// atom is what the shuffle moves: one row as packed, or several of one bucket that stay together.
type atom struct {
	pack   int // of Planner.packs
	bucket int // in the order of its buckets
	pieces []packonline.Piece
	ends   []int // where in pieces the rows end, all but the last
	// of are its tokens by source, once they were asked for: see portionsOf.
	of []portion
}

// rows returns the number of rows of the atom; a row has at least one piece.
func (a *atom) rows() int {
	if len(a.pieces) == 0 {
		return 0
	}
	return len(a.ends) + 1
}

func (a *atom) row(i int) []packonline.Piece {
	start, end := 0, len(a.pieces)
	if i > 0 {
		start = a.ends[i-1]
	}
	if i < len(a.ends) {
		end = a.ends[i]
	}
	return a.pieces[start:end:end]
}

func (a *atom) add(row []packonline.Piece) {
	if len(a.pieces) > 0 {
		a.ends = append(a.ends, len(a.pieces))
	}
	a.pieces = append(a.pieces, row...)
}

// merge appends the pieces of an atom to the row that it is a part of. When the atom goes on with the piece that the
// row ends with, the two become one piece.
func merge(row, pieces []packonline.Piece) []packonline.Piece {
	if n := len(row); n > 0 && len(pieces) > 0 {
		if last, x := &row[n-1], pieces[0]; x.Doc == last.Doc && x.Start == last.Start+last.Length {
			last.Length += x.Length
			pieces = pieces[1:]
		}
	}
	return append(row, pieces...)
}

// line is the way of the rows of one bucket from the packer to the queue for a step. Atoms of several rows are gathered
// before the shuffle, atoms that are parts of a row are merged behind it; at most one of open and parts is ever in use.
type line struct {
	queue  int                // of its rows
	packed int32              // length of what the packer packs: an atom when rows have several, else a row
	open   atom               // an atom that lacks rows
	parts  int                // atoms in merged
	merged []packonline.Piece // the row under construction
	since  int64              // documents that had arrived when the first row of open, or the first atom of merged, came
	packs  int64              // of these, documents of the packer
}

// pack is a packer and the lines of its rows, one a bucket.
type pack struct {
	config packonline.Config
	packer packonline.Packer
	lines  []line
	// An atom has atomRows rows, and a row rowAtoms atoms; one of them is 1.
	atomRows, rowAtoms int
	joins              bool // its atoms are what the packer says
	once               bool // the loss of a repeated token counts once
}

// addPack adds a packer of a configuration whose buckets are some of the run's.
func (p *Planner) addPack(c packonline.Config) error {
	c.Seed = p.config.Seed
	packer, err := packonline.New(c)
	if err != nil {
		return fmt.Errorf("make packer: %w", err)
	}
	k := pack{config: c, packer: packer, atomRows: int(max(c.Atom, 1)), rowAtoms: int(1 / min(c.Atom, 1)),
		joins: packonline.Joins(c.Method),
		once:  c.Relevant().RepeatLoss == packonline.LossOnce}
	for i, l := range c.Buckets {
		queue := slices.Index(p.config.Packing.Buckets, l)
		if queue < 0 {
			return fmt.Errorf("make packer: rows of %d tokens are in no bucket of the run: %v", l, p.config.Packing.Buckets)
		}
		k.lines = append(k.lines, line{queue: queue, packed: int32(float64(l) * min(c.Atom, 1)),
			open: atom{pack: len(p.packs), bucket: i}})
	}
	p.packs, p.once = append(p.packs, k), p.once || k.once
	return nil
}

// shuffle takes the rows just packed.
func (p *Planner) shuffle(k *pack) {
	for i := range p.rows.Len() {
		length, pieces, ages := p.rows.Row(i)
		for _, age := range ages {
			p.counts.AgeMax = max(p.counts.AgeMax, int64(age))
		}
		bucket := slices.IndexFunc(k.lines, func(l line) bool { return l.packed == length })
		l := &k.lines[bucket]
		p.begin(k, l)
		placed := p.fork.used.place(pieces)
		if k.once {
			placed = mark(placed, repeats(&p.rows, i))
		}
		l.open.add(placed)
		complete := l.open.rows() == k.atomRows
		if k.joins {
			complete = i+1 == p.rows.Len() || !p.rows.Joined(i+1)
		}
		if complete {
			p.submit(l)
		}
	}
}

// repeats returns how many tokens row i of those just packed begins with that the row before ends with: windows of one
// document come one behind the other, and each is a row of one piece.
func repeats(rows *packonline.Rows, i int) int32 {
	if i == 0 {
		return 0
	}
	_, before, _ := rows.Row(i - 1)
	_, now, _ := rows.Row(i)
	last, x := before[len(before)-1], now[0]
	if last.Doc != x.Doc {
		return 0
	}
	return last.Start + last.Length - x.Start
}

// submit hands the open atom to the window, even if rows of it have not come.
func (p *Planner) submit(l *line) {
	if l.open.rows() == 0 {
		return
	}
	a := l.open
	l.open = atom{pack: a.pack, bucket: a.bucket}
	p.enter(a)
}

// arrange makes rows of an atom that leaves the window.
func (p *Planner) arrange(a atom) {
	p.leave(&a)
	l, k := p.packs.lineOf(&a)
	if k.rowAtoms == 1 {
		for i := range a.rows() {
			p.enqueue(l, a.row(i))
		}
		return
	}
	p.begin(k, l)
	l.merged = merge(l.merged, a.pieces)
	l.parts++
	if l.parts == k.rowAtoms {
		p.complete(l)
	}
}

// complete ends the row under construction, even if atoms of it have not come.
func (p *Planner) complete(l *line) {
	if l.parts == 0 {
		return
	}
	row := l.merged
	l.merged, l.parts = nil, 0
	p.enqueue(l, row)
}

// begin notes when an atom or a row is begun.
func (p *Planner) begin(k *pack, l *line) {
	if !l.begun() {
		l.since, l.packs = p.counts.Arrived, k.packer.Counts().Documents
	}
}

// late reports whether the atom or the row under construction would wait for too long if one more document arrived: by
// Steps.MaxWait, which all documents count for, or by the part of Packing.MaxAge that is for it, which those of its
// packer count for.
func (p *Planner) late(k *pack, l *line) bool {
	if !l.begun() {
		return false
	}
	most, bounded := k.config.AtomWait()
	return p.queues.maxWait > 0 && p.counts.Arrived-l.since >= p.queues.maxWait || bounded &&
		k.packer.Counts().Documents-l.packs >= int64(most)
}

// begun reports whether an atom or a row is under construction.
func (l *line) begun() bool { return l.open.rows() > 0 || l.parts > 0 }

// waiting returns the number of rows that wait here: those of an atom that lacks rows, or a row that lacks atoms.
func (l *line) waiting() int { return l.open.rows() + min(l.parts, 1) }

// each visits everything that waits outside the window.
func (l *line) each(f func([]packonline.Piece)) {
	f(l.open.pieces)
	f(l.merged)
}

// checkRow refuses pieces that no packer can have put into so many tokens.
func checkRow(r *codec.Cursor, pieces []packonline.Piece, length int64) {
	if n := plan.RowTokens(pieces); r.Err == nil && (len(pieces) == 0 || n > length) {
		r.Fail(fmt.Errorf("a row of %d tokens with %d pieces of %d tokens is impossible", length, len(pieces), n))
	}
}
