package plan

import (
	"loaderd/packonline"
)

// LossRuns states which tokens of a document have a loss. It has the lengths in tokens of alternating runs with and
// without a loss, starting with a run that has one. Only the first length may be 0. Nil means that all tokens have a
// loss. This is the only form for such a document.
type LossRuns []int32

// NewLossRuns returns normalized runs. lengths alternates as in LossRuns but may contain 0 anywhere; adjacent runs of
// the same kind are joined.
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

// AppendRuns appends the runs of the tokens [start, end) to lengths, for NewLossRuns. lengths must have an even number
// of elements, and so has the result.
func (r LossRuns) AppendRuns(lengths []int32, start, end int32) []int32 {
	at := start
	r.VisitMasked(packonline.Piece{Start: start, Length: end - start}, func(from, to int32) {
		lengths = append(lengths, from-at, to-from)
		at = to
	})
	return append(lengths, end-at, 0)
}

// HasLoss reports whether a token has a loss.
func (r LossRuns) HasLoss() bool { return r == nil || r[0] > 0 || len(r) > 2 }

// LossTokens returns how many tokens of a piece have a loss.
func (r LossRuns) LossTokens(x packonline.Piece) int32 {
	n := x.Length
	r.VisitMasked(x, func(start, end int32) { n -= end - start })
	return n
}

// VisitMasked calls f for the tokens [start, end) of a piece that have no loss, in order.
func (r LossRuns) VisitMasked(x packonline.Piece, f func(start, end int32)) {
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

// Repeat marks a piece of a step that begins with tokens which occur with their loss in another piece of the same
// document. In this piece they have no loss.
type Repeat struct {
	Row, Piece int // row of the step, piece of the row
	Tokens     int32
}
