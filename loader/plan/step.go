package plan

import (
	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// Step is one global batch: rows of one bucket, the same for every world size.
type Step struct {
	Index  uint64
	Bucket int32                // length of every row in tokens
	Rows   [][]packonline.Piece // their pieces name documents by Ref; a row without pieces is all padding
	Cursor Position             // behind the last arrival when the step came out
	Floor  Position             // before the oldest arrival that a later step may need
	// Places are how far each source was read at Cursor, in steps whose index is a multiple of MarkSteps.
	Places []mixture.Place
	// Masked is how many tokens have no loss: those that their documents say so of, and repeated ones where a repeated
	// token's loss counts once.
	Masked int64
	// MaskedFirst is how many attention segments begin with such a token.
	MaskedFirst int64
	// Repeats are the pieces that begin with repeated tokens without a loss, by row and piece.
	Repeats []Repeat
}

// MarkSteps is how many steps come from one with Places to the next.
const MarkSteps = 64

// RowTokens returns the number of tokens of pieces.
func RowTokens(pieces []packonline.Piece) (n int64) {
	for _, x := range pieces {
		n += int64(x.Length)
	}
	return n
}
