package assembly

import (
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// Batch is rows [First, First+Rows) of a step, with the documents that they consist of.
type Batch struct {
	Step   uint64
	Bucket int // L, the length of every row in tokens
	First  int // first row within the step
	Rows   int
	// Pieces[i] are the pieces of row First+i in order; the slots after them up to L are padding.
	Pieces [][]packonline.Piece
	Pad    int32 // padding id
	// Loss has, for each row, which of its tokens have a loss, without padding; nil if all tokens of all rows have one.
	Loss []plan.LossRuns
	// Weights has, for each row, the loss weights of its pieces; nil if all are 1.
	Weights [][]float32
	// PieceDocuments has, for each row, which document of its message each piece belongs to; nil if no message of these
	// rows holds several.
	PieceDocuments [][]PieceDocument
	// Contents are the documents of the pieces, with all their tokens and attributes. They are shared and must not be
	// changed.
	Contents map[uint64]document.Content
	// StoreTimes has the store times (Content.Stored) of the documents whose first token is in these rows, if known.
	StoreTimes []int64
	// TracedDocuments are the sampled ones of the documents whose first token is in these rows.
	TracedDocuments []document.TracedDocument

	cache    *contentCache // lender of Contents; nil if not borrowed
	borrowed []*cacheEntry
}

// Done releases the contents, which must not be used afterwards. Their memory may then be reused. Without Done, the
// garbage collector frees it.
func (b *Batch) Done() {
	if b.cache == nil {
		return
	}
	b.cache.release(b.borrowed)
	b.Contents, b.cache, b.borrowed = nil, nil, nil
}

// WriteIDs writes the ids of the rows, Rows*Bucket in total, row by row.
func (b *Batch) WriteIDs(into []int32) {
	eachPiece(b, into, b.Pad, func(slots []int32, c document.Content, p packonline.Piece) {
		if c.NarrowTokens != nil {
			document.Widen(slots, c.NarrowTokens[p.Start:p.Start+p.Length])
			return
		}
		copy(slots, c.Tokens[p.Start:p.Start+p.Length])
	})
}

// WriteNarrowIDs writes the ids of the rows as 16 bits each. It reports whether all ids fit.
func (b *Batch) WriteNarrowIDs(into []uint16) (ok bool) {
	over := uint32(b.Pad)
	eachPiece(b, into, uint16(b.Pad), func(slots []uint16, c document.Content, p packonline.Piece) {
		if c.NarrowTokens != nil {
			copy(slots, c.NarrowTokens[p.Start:p.Start+p.Length])
			return
		}
		over |= document.Narrow(slots, c.Tokens[p.Start:p.Start+p.Length])
	})
	return document.Fits16(over)
}

// eachPiece calls put for every piece, with its slots and the content of its document, and fills the padding slots.
func eachPiece[T int32 | uint16](b *Batch, slots []T, pad T,
	put func(slots []T, c document.Content, p packonline.Piece)) {
	for i, pieces := range b.Pieces {
		row := slots[i*b.Bucket : (i+1)*b.Bucket]
		for _, p := range pieces {
			put(row[:p.Length], b.Contents[p.Doc], p)
			row = row[p.Length:]
		}
		for k := range row {
			row[k] = pad
		}
	}
}

// PieceDocument identifies the document of a message that a piece belongs to.
type PieceDocument struct {
	Index int32 // from 0
	Start int32 // index of the document's first token in the message
}
