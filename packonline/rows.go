package packonline

import "slices"

// Rows collects emitted rows in two flat slices, so that a Packer allocates nothing once they have grown. The zero
// value is ready.
type Rows struct {
	pieces []Piece
	ages   []uint32
	ends   []rowEnd
}

type rowEnd struct {
	length int32
	joined bool
	end    int // in pieces
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.ends) }

// Row returns the length of row i in tokens, its pieces in order, and for each piece its age: the documents that
// arrived between its document's arrival and now. The slices are valid until Reset.
func (r *Rows) Row(i int) (length int32, pieces []Piece, ages []uint32) {
	start := 0
	if i > 0 {
		start = r.ends[i-1].end
	}
	e := r.ends[i]
	return e.length, r.pieces[start:e.end:e.end], r.ages[start:e.end:e.end]
}

// Joined reports whether row i is in one atom with the row before it. Only pad says so: its atoms hold as many rows as
// a document needs. All others fill atoms of several rows one row after the other.
func (r *Rows) Joined(i int) bool { return r.ends[i].joined }

// Reset forgets all rows and keeps the memory.
func (r *Rows) Reset() { r.pieces, r.ages, r.ends = r.pieces[:0], r.ages[:0], r.ends[:0] }

// grow makes place for so many more pieces and rows.
func (r *Rows) grow(pieces, rows int) {
	r.pieces, r.ages, r.ends = slices.Grow(r.pieces, pieces), slices.Grow(r.ages, pieces), slices.Grow(r.ends, rows)
}

// add appends a piece to the row under construction.
func (r *Rows) add(p Piece, age uint32) {
	r.pieces = append(r.pieces, p)
	r.ages = append(r.ages, age)
}

// close ends the row under construction.
func (r *Rows) close(length int32, joined bool) {
	r.ends = append(r.ends, rowEnd{length, joined, len(r.pieces)})
}

// copy appends a row whose pieces have become older by so many documents.
func (r *Rows) copy(length int32, pieces []Piece, ages []uint32, older uint32) {
	r.pieces = append(r.pieces, pieces...)
	for _, age := range ages {
		r.ages = append(r.ages, age+older)
	}
	r.close(length, false)
}
