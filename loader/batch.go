package loader

import (
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// Batch is rows [First, First+Rows) of a step as tokens.
type Batch struct {
	Step   uint64
	Bucket int // L, the length of every row in tokens
	First  int // first row within the step
	Rows   int
	// Tokens are Rows*Bucket ids, row after row, padding filled with the run's pad id. They may be lent to the network: never change them.
	Tokens []int32
	// Pieces[i] are the pieces of row First+i in order; the tokens behind them up to L are padding.
	Pieces [][]packonline.Piece
	// Loss says for every row which of its tokens have a loss, padding left out; nil where those of all rows do.
	Loss []plan.Runs
	// Weights has for every row the factors of the loss of its pieces; nil where those of all rows are 1.
	Weights [][]float32
	// Within says for every row which documents of their messages its pieces are of; nil where no message of these rows holds several.
	Within [][]Within
	// Contents are those of the documents that the pieces name, with what else came with them. They are shared: never change them.
	Contents map[uint64]Content
	// Begins are the documents whose first token is in these rows: when the stream took each, as Content.Stored, where that is known.
	Begins []int64
	// Traced are those of these documents that are sampled.
	Traced []Traced
}

// Within says which of its message's documents a piece is of.
type Within struct {
	Index int32 // from 0
	Start int32 // first token of that document among those of the message
}

// Place is a reader's place among the data-parallel ranks of a job.
type Place struct {
	Job   string // of one job the slowest rank counts, and jobs do not wait for each other; empty stands for plan.DefaultKeeper
	Rank  int
	World int
}

// Slice returns the rows [first, first+n) of a step of the given number of rows that the rank takes (invariant: world-size freedom).
func (p Place) Slice(rows int) (first, n int) {
	n = rows / p.World
	return p.Rank * n, n
}
