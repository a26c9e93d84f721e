package plan

import (
	"fmt"
	"slices"

	"loaderd/packonline"
)

// atom is what the shuffle moves: one row as packed, or several of one bucket that stay together.
type atom struct {
	bucket int // in the order of Config.Packing.Buckets
	pieces []packonline.Piece
	ends   []int // where in pieces the rows end, all but the last
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

// merge appends the pieces of an atom to the row that it is a part of. When the atom goes on with the piece that the row ends with, the two
// become one piece.
func merge(row, pieces []packonline.Piece) []packonline.Piece {
	if n := len(row); n > 0 && len(pieces) > 0 {
		if last, x := &row[n-1], pieces[0]; x.Doc == last.Doc && x.Start == last.Start+last.Length {
			last.Length += x.Length
			pieces = pieces[1:]
		}
	}
	return append(row, pieces...)
}

// line is the way of the rows of one bucket from the packer to the queue for a step. Atoms of several rows are gathered before the shuffle, atoms
// that are parts of a row are merged behind it; at most one of open and parts is ever in use.
type line struct {
	packed int32              // length of what the packer packs: an atom when rows have several, else a row
	open   atom               // an atom that lacks rows
	parts  int                // atoms in merged
	merged []packonline.Piece // the row under construction
	since  int64              // documents that had arrived when the first row of open, or the first atom of merged, came
}

// lines returns the empty lines of a configuration.
func lines(c packonline.Config) []line {
	out := make([]line, len(c.Buckets))
	for i, l := range c.Buckets {
		out[i] = line{packed: int32(float64(l) * min(c.Atom, 1)), open: atom{bucket: i}}
	}
	return out
}

// shuffle takes the rows just packed.
func (p *Planner) shuffle() {
	joins := packonline.Joins(p.config.Packing.Method)
	for i := range p.rows.Len() {
		length, pieces, ages := p.rows.Row(i)
		for _, age := range ages {
			p.counts.AgeMax = max(p.counts.AgeMax, int64(age))
		}
		bucket := slices.IndexFunc(p.lines, func(l line) bool { return l.packed == length })
		l := &p.lines[bucket]
		if !l.begun() {
			l.since = p.counts.Arrived
		}
		l.open.add(p.parent.place(pieces))
		complete := l.open.rows() == p.atomRows
		if joins {
			complete = i+1 == p.rows.Len() || !p.rows.Joined(i+1)
		}
		if complete {
			p.submit(l)
		}
	}
}

// submit hands the open atom to the window, even if rows of it have not come.
func (p *Planner) submit(l *line) {
	if l.open.rows() == 0 {
		return
	}
	a := l.open
	l.open = atom{bucket: a.bucket}
	p.window.Add(a, p.arrange)
}

// arrange makes rows of an atom that leaves the window.
func (p *Planner) arrange(a atom) {
	l := &p.lines[a.bucket]
	if p.rowAtoms == 1 {
		for i := range a.rows() {
			p.enqueue(l, a.row(i))
		}
		return
	}
	if !l.begun() {
		l.since = p.counts.Arrived
	}
	l.merged = merge(l.merged, a.pieces)
	l.parts++
	if l.parts == p.rowAtoms {
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

// begun reports whether an atom or a row is under construction.
func (l *line) begun() bool { return l.open.rows() > 0 || l.parts > 0 }

// waiting returns the number of rows that wait here: those of an atom that lacks rows, or a row that lacks atoms.
func (l *line) waiting() int { return l.open.rows() + min(l.parts, 1) }

// each visits everything that waits outside the window.
func (l *line) each(f func([]packonline.Piece)) {
	f(l.open.pieces)
	f(l.merged)
}

// oldest returns the part of p that covers no document of the pieces.
func oldest(pieces []packonline.Piece, p Position) Position {
	for _, x := range pieces {
		p = p.Least(Before(x.Doc))
	}
	return p
}

func tokens(pieces []packonline.Piece) (n int64) {
	for _, x := range pieces {
		n += int64(x.Length)
	}
	return n
}

// checkRow refuses pieces that no packer can have put into so many tokens.
func (r *varints) checkRow(pieces []packonline.Piece, length int64) {
	if n := tokens(pieces); r.err == nil && (len(pieces) == 0 || n > length) {
		r.fail(fmt.Errorf("a row of %d tokens with %d pieces of %d tokens is impossible", length, len(pieces), n))
	}
}
