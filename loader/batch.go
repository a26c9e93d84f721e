package loader

import "loaderd/packonline"

// Batch is rows [First, First+Rows) of a step as tokens.
type Batch struct {
	Step   uint64
	Bucket int // L, the length of every row in tokens
	First  int // first row within the step
	Rows   int
	// Content has Rows*Bucket tokens, row after row, padding filled with the run's pad id. It may be lent to the network: never change it.
	Content
	// Pieces[i] are the pieces of row First+i in order; the tokens behind them up to L are padding.
	Pieces [][]packonline.Piece
	// Begins are the documents whose first token is in these rows: when the stream took each, as Content.Stored, where that is known.
	Begins []int64
	// Traced are those of these documents that are sampled.
	Traced []Traced
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
