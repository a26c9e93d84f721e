package packonline_test

import (
	"math/rand/v2"
	"sync"

	"loaderd/packonline"
	"loaderd/packonline/related"
)

func randomSplice(r *rand.Rand) packonline.Splice {
	return packonline.Splice{
		Retriever:     related.Retrievers[r.IntN(3)],
		K:             1 + r.IntN(3),
		Order:         packonline.Orders[r.IntN(2)],
		Fill:          packonline.Fills[min(1, r.IntN(3)/2)],
		PathBonus:     []int{0, 30}[r.IntN(2)],
		NearDuplicate: []int{0, 75}[r.IntN(2)],
		Postings:      []int{4096, 20}[r.IntN(2)],
		Dimension:     16,
	}
}

// giveHints tells a restored Packer what its documents are about.
func giveHints(p packonline.Packer) {
	if hinted, ok := p.(packonline.Hinted); ok {
		for _, d := range hinted.Unhinted() {
			hinted.Hint(d, hintOf(d))
		}
	}
}

var hints sync.Map // by document

// hintOf is what a document is about: one of few subjects, with words and numbers of its own beside. One document in ten has no hint.
func hintOf(seq uint64) *related.Hint {
	if h, ok := hints.Load(seq); ok {
		return h.(*related.Hint)
	}
	h := makeHint(seq)
	hints.Store(seq, h)
	return h
}

func makeHint(seq uint64) *related.Hint {
	r := rand.New(rand.NewPCG(seq, 1))
	if r.IntN(10) == 0 {
		return nil
	}
	subject := r.IntN(12)
	h := &related.Hint{Source: uint32(r.IntN(5) / 4)}
	var m related.TermMaker
	ids := make([]int32, 1+r.IntN(30))
	for i := range ids {
		ids[i] = int32(20*subject + r.IntN(30))
	}
	h.Terms = m.Terms(ids)
	h.Path = related.Path([]string{"a/b/one", "a/b/two", "a/three", "c/d/e/four", ""}[subject%5])
	v := make([]float32, 16)
	for i := range v {
		v[i] = float32((subject*(i+3))%7-3) + r.Float32()
	}
	h.Vector, _ = related.Vector(v, 16)
	return h
}
