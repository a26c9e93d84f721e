package packonline

import "slices"

// Rows collects emitted rows in flat slices, so that a Packer does not allocate once they have grown. The zero value
// is ready to use.
type Rows struct {
	pieces []Piece
	ages   []uint32
	ends   []rowEnd
}

type rowEnd struct {
	length int32
	joined bool
	end    int // end index in pieces
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.ends) }

// Row returns the length of row i in tokens, its pieces in order, and the age of each piece: the number of documents
// that arrived after its document. The slices are valid until Reset.
func (r *Rows) Row(i int) (length int32, pieces []Piece, ages []uint32) {
	start := 0
	if i > 0 {
		start = r.ends[i-1].end
	}
	e := r.ends[i]
	return e.length, r.pieces[start:e.end:e.end], r.ages[start:e.end:e.end]
}

// IsJoined reports whether row i is in the same atom as the row before it. Only pad sets it, because its atoms have as
// many rows as a document needs. All other methods fill atoms of several rows with consecutive rows.
func (r *Rows) IsJoined(i int) bool { return r.ends[i].joined }

// Reset removes all rows and keeps the memory.
func (r *Rows) Reset() { r.pieces, r.ages, r.ends = r.pieces[:0], r.ages[:0], r.ends[:0] }

// grow reserves capacity for the given numbers of additional pieces and rows.
func (r *Rows) grow(pieces, rows int) {
	r.pieces, r.ages, r.ends = slices.Grow(r.pieces, pieces), slices.Grow(r.ages, pieces), slices.Grow(r.ends, rows)
}

// add appends a piece to the row under construction.
func (r *Rows) add(p Piece, age uint32) {
	r.pieces = append(r.pieces, p)
	r.ages = append(r.ages, age)
}

// close completes the row under construction.
func (r *Rows) close(length int32, joined bool) {
	r.ends = append(r.ends, rowEnd{length, joined, len(r.pieces)})
}

// appendRow appends a row and adds older to the ages of its pieces.
func (r *Rows) appendRow(length int32, pieces []Piece, ages []uint32, older uint32) {
	r.pieces = append(r.pieces, pieces...)
	for _, age := range ages {
		r.ages = append(r.ages, age+older)
	}
	r.close(length, false)
}
