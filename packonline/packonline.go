// Package packonline packs documents into training rows online: lengths go in, placements come out.
//
// It is pure. A Packer has no clock, no goroutine, no I/O and no randomness that is not keyed by its configuration, so
// what it emits is a function of its configuration and of the documents added so far, and nothing else. It sees
// lengths, never tokens.
package packonline

import "loaderd/packonline/related"

// Doc is what a Packer is told of a document.
type Doc struct {
	Seq    uint64        // identity: its sequence in the document stream; ascending
	Length int32         // tokens, end-of-document token included; at least 1
	Hint   *related.Hint // what it is about; splice alone reads it, nil is a document that is related to none
}

// Piece is a contiguous part of one document: tokens [Start, Start+Length).
type Piece struct {
	Doc    uint64 // Doc.Seq of the document
	Start  int32
	Length int32
}

// Counts are totals since a Packer was made. They satisfy, at every moment,
//
//	Tokens = Slots - Padding - Repeated + Dropped + pending tokens   (invariant 1: conservation)
type Counts struct {
	Documents int64 // documents added
	Tokens    int64 // their tokens
	Rows      int64 // rows emitted
	Slots     int64 // tokens that those rows hold, padding included
	Padding   int64 // slots without a token
	Repeated  int64 // tokens emitted a second time on purpose
	Dropped   int64 // tokens dropped on purpose
	Truncated int64 // documents that were split into more than one piece
}

// Plus returns the totals of two Packers.
func (c Counts) Plus(d Counts) Counts {
	return Counts{c.Documents + d.Documents, c.Tokens + d.Tokens, c.Rows + d.Rows, c.Slots + d.Slots,
		c.Padding + d.Padding, c.Repeated + d.Repeated,
		c.Dropped + d.Dropped, c.Truncated + d.Truncated}
}

// Pending describes what a Packer holds back.
type Pending struct {
	Pieces int    // that wait to be packed
	Held   Held   // what is packed
	Tokens int64  // of all these pieces
	Oldest uint64 // smallest Doc.Seq that one of them belongs to; meaningless without any
}

// Held counts finished rows that are held back. It is as narrow as it can be, for Pending is asked for after every
// document and should fit the processor's registers.
type Held struct{ Rows, Pieces int32 }

// Any reports whether anything is held back.
func (p Pending) Any() bool { return p.Pieces > 0 || p.Held.Rows > 0 }

// Packer is one packing method over a bounded pool.
type Packer interface {
	// Add takes the next document and appends the rows that it completes to out. A Length below 1 and a Seq that is not
	// above the one before are programming errors and panic.
	Add(d Doc, out *Rows)
	// Flush appends everything that is pending to out, padding where it must. The Packer can go on afterwards.
	Flush(out *Rows)
	Counts() Counts
	Pending() Pending
	// Each calls f with every piece that is pending, in no order. It looks at all of them.
	Each(f func(Piece))
	// Next returns the least Doc.Seq that Add takes.
	Next() uint64
	// AppendState appends the complete state to b: a Packer of the same configuration that reads it with RestoreState goes
	// on exactly as this one would. The state holds references, never tokens.
	AppendState(b []byte) []byte
	// RestoreState replaces the state of a Packer and returns the bytes behind it. A state of another format, of another
	// configuration, or one that AppendState can not have written is an error and changes nothing.
	RestoreState(b []byte) (rest []byte, err error)
}

// Detailed is a Packer that counts more than all do. What it counts is a part of its state.
type Detailed interface {
	Packer
	// Detail returns totals since the beginning by their names, which stay.
	Detail() map[string]int64
}
