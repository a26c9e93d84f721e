package loader_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"loaderd/loader"
)

// uses counts how often each token is in a batch.
func uses(batches []*loader.Batch, seen map[string]int) {
	for _, b := range batches {
		for _, row := range b.Pieces {
			for _, x := range row {
				for k := range x.Length {
					seen[fmt.Sprint(x.Doc, "/", x.Start+k)]++
				}
			}
		}
	}
}

// A fork plans what its parent's steps before the one it was forked at do not hold, in another configuration, and so does a fork of the
// fork. No token is lost; those that come twice are counted.
func TestFork(t *testing.T) {
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 8))
		lengths := someLengths(seed, 250)
		last := []string{loader.LastPad, loader.LastDrop} // what a sealed parent dropped, its fork plans
		w := newWorld(config(methods[r.IntN(len(methods))]))
		w.config.Steps.Last = last[r.IntN(2)]
		w.docs.lengths(lengths...)
		seen := map[string]int{}
		repeated := int64(0)
		for generation := range 3 {
			run, stop := w.start(t)
			if _, err := run.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			batches := read(t, run, loader.Place{World: 1}, 0, 0)
			at := r.IntN(len(batches) + 1)
			if seed%3 == 0 {
				at = len(batches)
			}
			if generation == 2 {
				at = len(batches)
			}
			uses(batches[:at], seen)
			repeated += run.Stats().Repeated // at most: a token may be planned again behind the step
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if generation == 2 {
				break
			}
			next := newWorld(config(methods[r.IntN(len(methods))]))
			next.config.Packing.Buckets, next.config.Steps.Rows, next.config.Seed = []int{8 + r.IntN(20)}, 1+r.IntN(5), seed
			next.config.Steps.Last = last[r.IntN(2-generation)] // the last of them pads
			next.docs = w.docs
			h, _, err := loader.Fork(t.Context(), w.plan, uint64(at), "next", next.config, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := loader.Begin(t.Context(), next.plan, &memFloors{docs: w.docs}, h); err != nil {
				t.Fatal(err)
			}
			if err := loader.Begin(t.Context(), next.plan, &memFloors{docs: w.docs}, h); err == nil {
				t.Fatal("a run was begun twice")
			}
			w = next
		}
		var twice int64
		for i, n := range lengths {
			for k := range n {
				switch c := seen[fmt.Sprint(i+1, "/", k)]; {
				case c == 0:
					t.Fatalf("seed %d: token %d of document %d is lost", seed, k, i+1)
				default:
					twice += int64(c - 1)
				}
			}
		}
		if twice > repeated {
			t.Fatalf("seed %d: %d tokens came again, %d are counted", seed, twice, repeated)
		}
	}
}

func TestForkRefusesWhatCanNotBe(t *testing.T) {
	w := newWorld(config("bfd"))
	w.docs.lengths(someLengths(1, 100)...)
	run, stop := w.start(t)
	planned := uint64(len(read(t, run, loader.Place{World: 1}, 0, 8)))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := loader.Fork(t.Context(), w.plan, planned+100, "next", w.config, 1); reason(err) != loader.StepNotPlanned {
		t.Errorf("fork at a step that is not planned: %v", err)
	}
	other := w.config
	other.Tokenizer.Fingerprint = "another"
	if _, _, err := loader.Fork(t.Context(), w.plan, 2, "next", other, 1); reason(err) != loader.PlanMismatch {
		t.Errorf("fork with another tokenizer: %v", err)
	}
	if _, _, err := loader.Fork(t.Context(), w.plan, 0, "next", w.config, 2); reason(err) != loader.DocumentLost {
		t.Errorf("fork of purged documents: %v", err)
	}
	if _, _, err := loader.Fork(t.Context(), &memLog{}, 0, "next", w.config, 1); err == nil {
		t.Error("fork of a run that never began")
	}
}
