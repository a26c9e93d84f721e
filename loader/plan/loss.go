package plan

import (
	"loaderd/packonline"
)

// LossRuns say which tokens of a document have a loss: lengths of runs in tokens, in turns with and without, beginning
// with those that have one. The first may be 0, no other is. Nil stands for a document whose tokens all have a loss;
// runs of one that has none without are nil, too.
type LossRuns []int32

// NewLossRuns returns the runs in the form of LossRuns, equal neighbours joined: lengths may be 0 anywhere.
func NewLossRuns(lengths []int32) LossRuns {
	var out LossRuns
	for i, n := range lengths {
		switch {
		case n == 0:
		case len(out)%2 == i%2:
			if len(out) == 0 && i%2 == 1 {
				out = append(out, 0)
			}
			out = append(out, n)
		case len(out) == 0:
			out = append(out, 0, n)
		default:
			out[len(out)-1] += n
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// Append appends those of the tokens [start, end) to the lengths of others, an even number of them, and so that their
// number is even again: as NewLossRuns takes them.
func (r LossRuns) Append(lengths []int32, start, end int32) []int32 {
	at := start
	r.Masked(packonline.Piece{Start: start, Length: end - start}, func(from, to int32) {
		lengths = append(lengths, from-at, to-from)
		at = to
	})
	return append(lengths, end-at, 0)
}

// Any reports whether a token has a loss.
func (r LossRuns) Any() bool { return r == nil || r[0] > 0 || len(r) > 2 }

// Masked calls f for the tokens [start, end) of a piece that have no loss, in order.
func (r LossRuns) Masked(x packonline.Piece, f func(start, end int32)) {
	at := int32(0)
	for i, n := range r {
		if at >= x.Start+x.Length {
			return
		}
		if from, to := max(at, x.Start), min(at+n, x.Start+x.Length); i%2 == 1 && from < to {
			f(from, to)
		}
		at += n
	}
}

// Repeat says that a piece of a step begins with tokens that another piece of the same document holds with their loss:
// here they have none.
type Repeat struct {
	Row, Piece int // of the step, and of the row
	Tokens     int32
}
