package plan

import "strconv"

// Position is a place between the documents of a run: it covers those before it. A cursor is the position behind the
// last document that the planner has seen, a floor the one before the first that is still needed. The zero Position
// covers nothing.
type Position struct{ last uint64 }

// Behind returns the position that covers the documents up to a sequence, that one included.
func Behind(sequence uint64) Position { return Position{sequence} }

// Before returns the position that covers the documents up to a sequence, that one excluded.
func Before(sequence uint64) Position { return Position{max(sequence, 1) - 1} }

// Covers reports whether a document lies before the position.
func (p Position) Covers(sequence uint64) bool { return sequence <= p.last }

// Reaches reports whether p covers all that q covers.
func (p Position) Reaches(q Position) bool { return p.last >= q.last }

// Last returns the sequence of the last document that p covers, 0 when it covers none.
func (p Position) Last() uint64 { return p.last }

// Next returns the sequence of the first document that p does not cover.
func (p Position) Next() uint64 { return p.last + 1 }

// Least returns what both positions cover.
func (p Position) Least(q Position) Position {
	if p.Reaches(q) {
		return q
	}
	return p
}

// Most returns what one of the positions covers.
func (p Position) Most(q Position) Position {
	if p.Reaches(q) {
		return p
	}
	return q
}

// MarshalText writes the sequence of the last document that the position covers.
func (p Position) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, p.last, 10), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Position) UnmarshalText(b []byte) (err error) {
	p.last, err = strconv.ParseUint(string(b), 10, 64)
	return err
}

// String shows the last document that the position covers.
func (p Position) String() string { return strconv.FormatUint(p.last, 10) }
