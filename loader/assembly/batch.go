package assembly

import (
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// Batch is rows [First, First+Rows) of a step with the documents that they are made of.
type Batch struct {
	Step   uint64
	Bucket int // L, the length of every row in tokens
	First  int // first row within the step
	Rows   int
	// Pieces[i] are the pieces of row First+i in order; the slots behind them up to L are padding.
	Pieces [][]packonline.Piece
	Pad    int32 // the id of padding
	// Loss says for every row which of its tokens have a loss, padding left out; nil where those of all rows do.
	Loss []plan.LossRuns
	// Weights has for every row the factors of the loss of its pieces; nil where those of all rows are 1.
	Weights [][]float32
	// Within says for every row which documents of their messages its pieces are of; nil where no message of these rows
	// holds several.
	Within [][]Within
	// Contents are those of the documents that the pieces name, with all their tokens, and what else came with them. They
	// are shared: never change them.
	Contents map[uint64]document.Content
	// Begins are the documents whose first token is in these rows: when the stream took each, as Content.Stored, where
	// that is known.
	Begins []int64
	// Traced are those of these documents that are sampled.
	Traced []document.Traced

	cache *contentCache // whose these are; nil: of nobody
	lent  []*cached
}

// Done says that nobody uses the contents any more, whose memory may then be used again. Where it is not said, it is
// not.
func (b *Batch) Done() {
	if b.cache == nil {
		return
	}
	b.cache.giveBack(b.lent)
	b.Contents, b.cache, b.lent = nil, nil, nil
}

// IDs writes the ids of the rows: Rows*Bucket of them, row after row.
func (b *Batch) IDs(into []int32) {
	eachPiece(b, into, b.Pad, func(slots []int32, c document.Content, p packonline.Piece) {
		if c.Narrow != nil {
			document.Widen(slots, c.Narrow[p.Start:p.Start+p.Length])
			return
		}
		copy(slots, c.Tokens[p.Start:p.Start+p.Length])
	})
}

// NarrowIDs writes the ids of the rows as 16 bits each, and reports whether all are in there.
func (b *Batch) NarrowIDs(into []uint16) (ok bool) {
	over := uint32(b.Pad)
	eachPiece(b, into, uint16(b.Pad), func(slots []uint16, c document.Content, p packonline.Piece) {
		if c.Narrow != nil {
			copy(slots, c.Narrow[p.Start:p.Start+p.Length])
			return
		}
		over |= document.Narrow(slots, c.Tokens[p.Start:p.Start+p.Length])
	})
	return document.Fits16(over)
}

// eachPiece calls put for every piece, with the slots that it takes and the content of its document, and fills the
// slots of padding.
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

// Within says which of its message's documents a piece is of.
type Within struct {
	Index int32 // from 0
	Start int32 // first token of that document among those of the message
}
