package loader_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"loaderd/loader/assembly"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// uses counts how often each token is in batches.
func uses(batches []*assembly.Batch, seen map[string]int) {
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

// A fork, with another configuration, plans what the parent's steps before the fork point do not hold, and so does a
// fork of the fork. Every token is planned once, including tokens between tokens of the parent's steps.
func TestFork_PlansEveryTokenOnce(t *testing.T) {
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 8))
		lengths := someLengths(seed, 250)
		last := []string{runconfig.LastPad, runconfig.LastDrop} // the fork plans what a sealed parent dropped
		w := newFixture(config(methods[r.IntN(len(methods))]))
		w.config.Steps.Last = last[r.IntN(2)]
		w.docs.lengths(lengths...)
		seen := map[string]int{}
		for generation := range 3 {
			run, stop := w.start(t)
			if _, err := run.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			batches := read(t, run, state.RankID{World: 1}, 0, 0)
			at := r.IntN(len(batches) + 1)
			if seed%3 == 0 {
				at = len(batches)
			}
			if generation == 2 {
				at = len(batches)
			}
			uses(batches[:at], seen)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if generation == 2 {
				break
			}
			next := newFixture(config(methods[r.IntN(len(methods))]))
			next.config.Packing.Buckets, next.config.Steps.Rows, next.config.Seed = []int{8 + r.IntN(20)}, 1+r.IntN(5), seed
			next.config.Steps.Last = last[r.IntN(2-generation)] // the last generation pads
			next.docs = w.docs
			h, _, err := w.fork(t, uint64(at), "next", next.config)
			if err != nil {
				t.Fatal(err)
			}
			if err := maintenance.CreateFork(t.Context(), next.beginning(&memLowWatermarks{docs: w.docs}), h); err != nil {
				t.Fatal(err)
			}
			if err := maintenance.CreateFork(t.Context(), next.beginning(&memLowWatermarks{docs: w.docs}), h); err == nil {
				t.Fatal("a run was begun twice")
			}
			w = next
		}
		for i, n := range lengths {
			for k := range n {
				if c := seen[fmt.Sprint(i+1, "/", k)]; c != 1 {
					t.Fatalf("seed %d: token %d of document %d is planned %d times", seed, k, i+1, c)
				}
			}
		}
	}
}

// A fork begins after the documents that its parent's steps before it were made of, even if a checkpoint of the
// parent covers more documents. If those documents are purged, the fork begins with that checkpoint.
func TestFork_StartsAfterDocumentsOfForkStep(t *testing.T) {
	w := newFixture(config("bfd"))
	w.config.Packing.Buckets, w.config.Packing.Atom = []int{64}, 1
	w.options.CheckpointSteps = 1 << 30
	w.docs.lengths(someLengths(3, 100)...)
	run, stop := w.start(t)
	settled(t, run, 100) // the checkpoints cover documents that are in no step
	steps := run.Info().Planned
	must(t, stop())
	last, err := (&planview.Reader{Log: w.plan}).Step(t.Context(), steps-1)
	must(t, err)
	if last.Cursor.Last() == 100 {
		t.Fatal("all documents make steps")
	}
	taken := func() uint64 {
		t.Helper()
		h, _, err := w.fork(t, steps, "next", w.config)
		must(t, err)
		return h.Parent.Sources[0].Taken
	}
	if n := taken(); n != last.Cursor.Last() {
		t.Errorf("the fork has taken %d documents, the steps before it are made of %d", n, last.Cursor.Last())
	}
	w.docs.first = 101
	if n := taken(); n != 100 {
		t.Errorf("the fork has taken %d documents, the only checkpoint covers 100", n)
	}
	w.docs.first, w.checkpoints.data = 1, nil
	if n := taken(); n != last.Cursor.Last() {
		t.Errorf("without a checkpoint the fork has taken %d documents, want %d", n, last.Cursor.Last())
	}
}

// forked forks a fixture's run with another dedupe window, seals the fork and returns its steps.
func forked(t *testing.T, w *fixture, at uint64, dedupe int) []*assembly.Batch {
	t.Helper()
	next := newFixture(w.config)
	next.config.Documents.Dedupe, next.docs = dedupe, w.docs
	h, _, err := w.fork(t, at, "next", next.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := maintenance.CreateFork(t.Context(), next.beginning(&memLowWatermarks{docs: w.docs}), h); err != nil {
		t.Fatal(err)
	}
	return next.sealed(t)
}

// sealed seals a fixture's run and returns all its steps.
func (w *fixture) sealed(t *testing.T) []*assembly.Batch {
	t.Helper()
	run, stop := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	batches := read(t, run, state.RankID{World: 1}, 0, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return batches
}

// singly returns a fixture whose steps hold the stream in order. Its documents have the given ids; 0 is an empty
// document.
func singly(dedupe, length int, ids ...uint64) *fixture {
	c := config("concat")
	c.Documents.Dedupe, c.Shuffle.Window, c.Steps.Rows = dedupe, 0, 1
	w := newFixture(c)
	for i, id := range ids {
		d := document.Document{ID: id, Content: document.Content{Tokens: documentTokens(uint64(i+1), length)}}
		if id == 0 {
			d = document.Document{Skip: plan.SkipEmpty}
		}
		w.docs.publish(d)
	}
	return w
}

// A fork drops the same duplicates as the parent, even if empty documents are between them.
func TestFork_DropsSameDuplicatesAsParent(t *testing.T) {
	w := singly(4, 16, 1, 2, 0, 0, 3, 2, 0, 0, 0, 0, 0, 4, 2, 3, 5)
	whole := map[string]int{}
	batches := w.sealed(t)
	uses(batches, whole)
	for at := range len(batches) + 1 {
		seen := map[string]int{}
		uses(batches[:at], seen)
		uses(forked(t, w, uint64(at), 4), seen)
		if !maps.Equal(seen, whole) {
			t.Errorf("forked at step %d: %v, want %v", at, seen, whole)
		}
	}
}

// The rest of a document is planned even if the fork's dedupe window marks the document as a duplicate.
func TestFork_LargerDedupeWindowKeepsRestOfDocument(t *testing.T) {
	w := singly(2, 20, 1, 2, 3, 1, 5, 6)
	batches := w.sealed(t)
	seen := map[string]int{}
	uses(batches[:4], seen) // step 3 holds the start of the fourth document
	uses(forked(t, w, 4, 100), seen)
	for doc := 1; doc <= 6; doc++ {
		for k := range 20 {
			if n := seen[fmt.Sprint(doc, "/", k)]; n != 1 {
				t.Fatalf("token %d of document %d is planned %d times", k, doc, n)
			}
		}
	}
}

func TestFork_RefusesInvalidStepsAndConfigurations(t *testing.T) {
	w := newFixture(config("bfd"))
	w.config.Documents.Meta = map[string]string{"year": runconfig.MetaInt64}
	w.docs.lengths(someLengths(1, 100)...)
	run, stop := w.start(t)
	planned := uint64(len(read(t, run, state.RankID{World: 1}, 0, 8)))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.fork(t, planned+100, "next", w.config); reason(err) != fault.StepNotPlanned {
		t.Errorf("fork at a step that is not planned: %v", err)
	}
	other := w.config
	other.Tokenizer.Fingerprint = "another"
	if _, _, err := w.fork(t, 2, "next", other); reason(err) != fault.PlanMismatch {
		t.Errorf("fork with another tokenizer: %v", err)
	}
	other = w.config
	other.Documents.Meta = map[string]string{"year": runconfig.MetaString}
	if _, _, err := w.fork(t, 2, "next", other); reason(err) != fault.PlanMismatch {
		t.Errorf("fork that takes a value of documents for one of another type: %v", err)
	}
	w.docs.first = 2
	if _, _, err := w.fork(t, 0, "next", w.config); reason(err) != fault.DocumentLost {
		t.Errorf("fork of purged documents: %v", err)
	}
	if _, _, err := newFixture(w.config).fork(t, 0, "next", w.config); err == nil {
		t.Error("fork of a run that never began")
	}
}

// A plan of another algorithm version is neither continued nor forked.
func TestFork_OtherAlgorithmVersion(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(1, 200)...)
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 8)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	b := w.plan.records[0]
	var header map[string]any
	if err := json.Unmarshal(b[4:len(b)-4], &header); err != nil {
		t.Fatal(err)
	}
	header["algorithm"] = planner.AlgorithmVersion + 1
	other, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	w.plan.records[0] = planRecord(b[3], other)
	if _, err := w.open(t); reason(err) != fault.PlanMismatch ||
		!strings.Contains(err.Error(), "the binary that began it") {
		t.Errorf("Open = %v", err)
	}
	if _, _, err := w.fork(t, 8, "next", w.config); err == nil ||
		!strings.Contains(err.Error(), "fork it with the binary that planned it") {
		t.Errorf("Fork = %v", err)
	}
}
