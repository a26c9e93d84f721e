package plan

import (
	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// Step is one global batch: rows of one bucket, the same for every world size.
type Step struct {
	Index        uint64
	Bucket       int32                // length of every row in tokens
	Rows         [][]packonline.Piece // pieces name documents by Ref; a row without pieces is only padding
	Cursor       Position             // after the last arrival when the step was emitted
	LowWatermark Position             // before the oldest arrival that a later step may need
	// SourcePositions are the positions in the sources at Cursor, in steps whose index is a multiple of
	// SourcePositionInterval.
	SourcePositions []mixture.SourcePosition
	// Masked is the number of tokens without a loss: those masked in their documents, and repeated tokens if the loss of
	// a repeated token counts once.
	Masked int64
	// MaskedSegmentStarts is how many attention segments begin with such a token.
	MaskedSegmentStarts int64
	// SourceLossTokens has the number of tokens with a loss by source, if shares are of these tokens; else nil.
	SourceLossTokens []int64
	// Repeats are the pieces that begin with repeated tokens without a loss, by row and piece.
	Repeats []Repeat
}

// SourcePositionInterval is the number of steps from one with Places to the next.
const SourcePositionInterval = 64

// RowTokens returns the number of tokens of pieces.
func RowTokens(pieces []packonline.Piece) (n int64) {
	for _, x := range pieces {
		n += int64(x.Length)
	}
	return n
}
