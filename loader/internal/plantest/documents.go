package plantest

import (
	"math/rand/v2"

	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/packonline/similarity"
)

// Lengths generates n document lengths, some longer than a row.
func Lengths(seed uint64, n int) []int {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int, n)
	for i := range out {
		out[i] = 1 + r.IntN(12)
		if r.IntN(10) == 0 {
			out[i] = 17 + r.IntN(40)
		}
	}
	return out
}

// Hint returns the packing hints of a test document, which is about one of a few subjects.
func Hint(sequence uint64) *similarity.Hint {
	subject := uint32(sequence % 7)
	h := &similarity.Hint{Path: similarity.PathHashes([]string{"a/b/c", "a/b/d", "a/e", "f"}[sequence%4]),
		Vector: make([]int8, 4)}
	for i := range uint32(5) {
		h.Terms = append(h.Terms, (10*subject+2*i)<<8|uint32(sequence%200+1))
		h.Vector[i%4] = int8(subject*i%5) - 2
	}
	return h
}

// Loss returns which tokens of a test document have a loss. For every third document, all have.
func Loss(sequence uint64, length int) plan.LossRuns {
	var lengths []int32
	r := rand.New(rand.NewPCG(sequence, 2))
	for left := int32(length); left > 0 && sequence%3 > 0; {
		n := min(int32(r.IntN(9)), left)
		lengths = append(lengths, n)
		left -= n
	}
	return plan.NewLossRuns(lengths)
}

// TellHints restores the packing hints of the documents of a restored planner.
func TellHints(p *planner.Planner, documents func(ref uint64) []plan.Part) {
	for _, document := range p.MissingHints() {
		p.RestoreHints(document, documents(document))
	}
}
