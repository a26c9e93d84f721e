package planner

import (
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// atom is the unit that is shuffled: one row as packed, or several rows of one bucket that stay together.
type atom struct {
	pack   int // index into Planner.packs
	bucket int // index among the packer's buckets
	pieces []packonline.Piece
	ends   []int // where rows end in pieces, except the last row
	// of holds the atom's tokens by source once portionsOf has computed them.
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

// merge appends the pieces of an atom to the row that it is a part of. If the atom continues the last piece of the
// row, the two pieces become one.
func merge(row, pieces []packonline.Piece) []packonline.Piece {
	if n := len(row); n > 0 && len(pieces) > 0 {
		if last, x := &row[n-1], pieces[0]; x.Doc == last.Doc && x.Start == last.Start+last.Length {
			last.Length += x.Length
			pieces = pieces[1:]
		}
	}
	return append(row, pieces...)
}

// line takes the rows of one bucket from the packer to the queue for a step. Atoms of several rows are gathered
// before the shuffle. Atoms that are parts of a row are merged after it. At most one of open and parts is in use.
type line struct {
	queue  int                // index of the queue of its rows
	packed int32              // length of what the packer packs: an atom if a row has several, else a row
	open   atom               // an incomplete atom
	parts  int                // atoms in merged
	merged []packonline.Piece // the row under construction
	since  int64              // documents that had arrived at the first row of open or the first atom of merged
	packs  int64              // of these, documents of the packer
}

// pack is a packer and the lines of its rows, one per bucket.
type pack struct {
	config packonline.Config
	packer packonline.Packer
	lines  []line
	// An atom has atomRows rows, and a row rowAtoms atoms; one of them is 1.
	atomRows, rowAtoms int
	joins              bool // the packer decides which rows form an atom
	once               bool // the loss of a repeated token counts once
}

// addPack adds a packer with the given configuration, whose buckets are a subset of the run's.
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

// shuffle adds the rows just packed to atoms, and submits complete atoms to the shuffle window.
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

// repeats returns how many tokens at the start of the just packed row i repeat the end of the row before it. Windows
// of one document are adjacent rows, and each is a row of one piece.
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

// submit adds the open atom to the window, even if rows of it are missing.
func (p *Planner) submit(l *line) {
	if l.open.rows() == 0 {
		return
	}
	a := l.open
	l.open = atom{pack: a.pack, bucket: a.bucket}
	p.enter(a)
}

// arrange makes rows of an atom that has left the window.
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

// complete ends the row under construction, even if atoms of it are missing.
func (p *Planner) complete(l *line) {
	if l.parts == 0 {
		return
	}
	row := l.merged
	l.merged, l.parts = nil, 0
	p.enqueue(l, row)
}

// begin records when an atom or a row was begun.
func (p *Planner) begin(k *pack, l *line) {
	if !l.begun() {
		l.since, l.packs = p.counts.Arrived, k.packer.Counts().Documents
	}
}

// late reports whether one more document would make the atom or row under construction wait too long. Two bounds
// apply: Steps.MaxWait, which counts all documents, and the part of Packing.MaxAge for atoms, which counts documents
// of its packer.
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

// waiting returns the number of rows in the line: the rows of an incomplete atom, or one incomplete row.
func (l *line) waiting() int { return l.open.rows() + min(l.parts, 1) }

// each visits all pieces of the line outside the window.
func (l *line) each(f func([]packonline.Piece)) {
	f(l.open.pieces)
	f(l.merged)
}

// checkRow rejects pieces that no packer can have put into length tokens.
func checkRow(r *codec.Cursor, pieces []packonline.Piece, length int64) {
	if n := plan.RowTokens(pieces); r.Err == nil && (len(pieces) == 0 || n > length) {
		r.Fail(fmt.Errorf("a row of %d tokens with %d pieces of %d tokens is impossible", length, len(pieces), n))
	}
}
