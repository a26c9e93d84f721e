package plan

import "loaderd/packonline"

// Step is one global batch: rows of one bucket, the same for every world size.
type Step struct {
	Index  uint64
	Bucket int32                // length of every row in tokens
	Rows   [][]packonline.Piece // a row without pieces is all padding
	Cursor Position             // behind the last document that the planner had seen when the step came out
	Floor  Position             // before the oldest document that a later step may need
}
