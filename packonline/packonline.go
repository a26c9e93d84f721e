// Package packonline packs documents into training rows online: its input is lengths, its output placements.
//
// It is pure. A Packer has no clock, no goroutine and no I/O, and all randomness is keyed by its configuration. So
// its output depends only on its configuration and on the documents added so far. It sees lengths, never tokens.
package packonline

import "loaderd/packonline/similarity"

// Doc is the input of a Packer for one document.
type Doc struct {
	Seq    uint64           // identity: its sequence in the document stream; ascending
	Length int32            // in tokens, including the end-of-document token; at least 1
	Hint   *similarity.Hint // similarity hint, only read by splice; nil if the document is related to no other
}

// Piece is a contiguous part of one document: tokens [Start, Start+Length).
type Piece struct {
	Doc    uint64 // Doc.Seq of the document
	Start  int32
	Length int32
}

// Counts are totals since the creation of a Packer. At any time they satisfy
//
//	Tokens = Slots - Padding - Repeated + Dropped + pending tokens   (invariant 1: conservation)
type Counts struct {
	Documents int64 // documents added
	Tokens    int64 // their tokens
	Rows      int64 // rows emitted
	Slots     int64 // tokens in those rows, including padding
	Padding   int64 // slots without a token
	Repeated  int64 // tokens emitted again intentionally
	Dropped   int64 // tokens dropped intentionally
	Truncated int64 // documents that were split into more than one piece
}

// Plus returns the sum of two Counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.Documents + d.Documents, c.Tokens + d.Tokens, c.Rows + d.Rows, c.Slots + d.Slots,
		c.Padding + d.Padding, c.Repeated + d.Repeated,
		c.Dropped + d.Dropped, c.Truncated + d.Truncated}
}

// Pending describes what a Packer has buffered.
type Pending struct {
	Pieces int    // pieces that are not packed yet
	Held   Held   // finished rows
	Tokens int64  // of all these pieces
	Oldest uint64 // smallest Doc.Seq of these pieces; undefined if no piece is pending
}

// Held counts the finished rows in the holdback. Its fields are small because Pending is called after every document
// and its result should fit into the processor's registers.
type Held struct{ Rows, Pieces int32 }

// HasPieces reports whether anything is buffered.
func (p Pending) HasPieces() bool { return p.Pieces > 0 || p.Held.Rows > 0 }

// Packer is one packing method over a bounded pool.
type Packer interface {
	// Add adds the next document and appends the rows that it completes to out. It panics on programming errors: a
	// Length below 1, or a Seq that does not exceed the previous one.
	Add(d Doc, out *Rows)
	// Flush appends all pending pieces to out in rows, with padding where needed. The Packer can be used afterwards.
	Flush(out *Rows)
	Counts() Counts
	Pending() Pending
	// Each calls f with every pending piece, in no particular order. Its cost is linear in their number.
	Each(f func(Piece))
	// NextSeq returns the smallest Doc.Seq that Add accepts.
	NextSeq() uint64
	// AppendState appends the complete state to b. A Packer of the same configuration that restores it with RestoreState
	// continues exactly like this one. The state holds references, never tokens.
	AppendState(b []byte) []byte
	// RestoreState replaces the state of a Packer and returns the bytes after it. A state of another format or
	// configuration, or one that AppendState cannot have written, is an error and changes nothing.
	RestoreState(b []byte) (rest []byte, err error)
}

// DetailedPacker is a Packer with additional counts. They are a part of its state.
type DetailedPacker interface {
	Packer
	// Detail returns totals since the start, by name. The names are stable.
	Detail() map[string]int64
}
