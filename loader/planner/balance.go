package planner

import (
	"cmp"
	"container/heap"
	"slices"

	"loaderd/packonline"
)

// balanceRows orders the rows of a step so that every rank has nearly the same attention cost, for every world size. A
// rank of world size W takes one of W equal contiguous parts of the step. Rows are joined to parts, parts to larger
// parts, and so on, by the prime factors of the number of rows in ascending order. The costliest part is placed
// first, each into the cheapest larger part that has room. The parts of every world size are made up of these.
//
// The cost of a row is the sum of the squared lengths of its segments, which are its pieces. This is the cost of
// attention within documents. The order is a function of the rows alone.
func balanceRows(rows [][]packonline.Piece) {
	parts := make([]rowPart, len(rows))
	for i, r := range rows {
		parts[i] = rowPart{[][]packonline.Piece{r}, attentionCost(r)}
	}
	for f, left := 2, len(rows); left > 1; {
		if left%f > 0 {
			f++
			continue
		}
		parts = joinParts(parts, f)
		left /= f
	}
	if len(parts) > 0 {
		copy(rows, parts[0].rows)
	}
}

// rowPart is a group of consecutive rows of a step.
type rowPart struct {
	rows [][]packonline.Piece
	cost int64
}

func attentionCost(row []packonline.Piece) (cost int64) {
	segment := int64(0)
	for k, x := range row {
		if k == 0 || !continuesRepeat(row[k-1], x) {
			cost, segment = cost+segment*segment, 0
		}
		segment += int64(x.Length)
	}
	return cost + segment*segment
}

// joinParts joins the parts in groups of f.
func joinParts(parts []rowPart, f int) []rowPart {
	slices.SortStableFunc(parts, func(a, b rowPart) int { return cmp.Compare(b.cost, a.cost) })
	size := f * len(parts[0].rows)
	joined := make([]rowPart, len(parts)/f)
	open := make(partHeap, len(joined)) // parts with room
	for i := range joined {
		open[i] = openPart{&joined[i], i}
	}
	for _, p := range parts {
		to := open[0].part
		to.rows = append(to.rows, p.rows...)
		to.cost += p.cost
		if len(to.rows) == size {
			heap.Pop(&open)
		} else {
			heap.Fix(&open, 0)
		}
	}
	return joined
}

type openPart struct {
	part  *rowPart
	index int // breaks ties
}

// partHeap is a heap with the cheapest part on top.
type partHeap []openPart

func (c partHeap) Len() int { return len(c) }
func (c partHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(c[i].part.cost, c[j].part.cost), cmp.Compare(c[i].index, c[j].index)) < 0
}
func (c partHeap) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *partHeap) Push(x any)   { *c = append(*c, x.(openPart)) }
func (c *partHeap) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}
