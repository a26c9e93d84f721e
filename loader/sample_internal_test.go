package loader

import (
	"context"
	"slices"
	"testing"

	"loaderd/loader/mixture"
)

// inOrder is documents of ten tokens, which notes in which order they are read.
type inOrder struct {
	Documents
	read []uint64
}

func (d *inOrder) Again(_ context.Context, sequences []uint64, f func(Document)) error {
	d.read = append(d.read, sequences...)
	for _, sequence := range sequences {
		f(Document{Sequence: sequence, Content: Content{Tokens: make([]int32, 10)}})
	}
	return nil
}

// A sample is read in the order of the stream, but for the few times that it is found out how many documents more have the tokens.
func TestASampleIsReadInOrder(t *testing.T) {
	const stored, size, most = 100_000, 5000, 3
	for _, tokens := range []int64{10 * size, 10 * 1000, 1} {
		docs, rests := &inOrder{}, 0
		s := newSample(1, 0, 0, 0, stored)
		walk := mixture.WalkOf(0, "", mixture.Source{}, mixture.Begin{First: 1}, stored, 0)
		if err := s.grow(t.Context(), docs, walk, size, tokens, func(context.Context) error { rests++; return nil }); err != nil {
			t.Fatal(err)
		}
		back := 0
		for i := range docs.read[1:] {
			if docs.read[i+1] < docs.read[i] {
				back++
			}
		}
		all := slices.Compact(slices.Sorted(slices.Values(docs.read)))
		if want := max(sampledFirst, int(tokens/10)); len(all) != want || len(docs.read) != want || len(s.drawn) != want {
			t.Errorf("%d tokens: %d documents are read, %d of them others, and %d in the sample, want %d", tokens, len(docs.read), len(all), len(s.drawn), want)
		}
		if back >= most || rests < len(docs.read)/sampledTogether {
			t.Errorf("%d tokens: the stream is gone through %d times, with %d rests", tokens, back+1, rests)
		}
		if low, high := all[len(all)/4], all[len(all)*3/4]; low < stored/8 || high > stored*7/8 {
			t.Errorf("%d tokens: half of the sample lies between documents %d and %d of %d", tokens, low, high, stored)
		}
	}
}
