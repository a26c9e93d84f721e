package plan

import "strconv"

// Position is a point between the documents of a run. It covers the documents before it. A cursor is the position
// after the last document that the planner has processed. A low watermark is the position before the first document
// that is still needed. The zero Position covers no document.
type Position struct{ last uint64 }

// PositionAfter returns the position that covers the documents up to and including a sequence.
func PositionAfter(sequence uint64) Position { return Position{sequence} }

// PositionBefore returns the position that covers the documents before a sequence.
func PositionBefore(sequence uint64) Position { return Position{max(sequence, 1) - 1} }

// Covers reports whether the position covers a document.
func (p Position) Covers(sequence uint64) bool { return sequence <= p.last }

// Reaches reports whether p covers every document that q covers.
func (p Position) Reaches(q Position) bool { return p.last >= q.last }

// Last returns the sequence of the last document that p covers, or 0 if it covers none.
func (p Position) Last() uint64 { return p.last }

// Next returns the sequence of the first document that p does not cover.
func (p Position) Next() uint64 { return p.last + 1 }

// Min returns the position that covers the documents which both positions cover.
func (p Position) Min(q Position) Position {
	if p.Reaches(q) {
		return q
	}
	return p
}

// Max returns the position that covers the documents which at least one of the positions covers.
func (p Position) Max(q Position) Position {
	if p.Reaches(q) {
		return p
	}
	return q
}

// MarshalText encodes the sequence of the last document that the position covers.
func (p Position) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, p.last, 10), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Position) UnmarshalText(b []byte) (err error) {
	p.last, err = strconv.ParseUint(string(b), 10, 64)
	return err
}

// String returns the sequence of the last document that the position covers.
func (p Position) String() string { return strconv.FormatUint(p.last, 10) }
