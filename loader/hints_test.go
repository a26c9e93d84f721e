package loader_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"loaderd/loader"
	"loaderd/loader/plan"
	"loaderd/packonline/related"
)

// hintOf is what a document of the tests is about: one of a few subjects.
func hintOf(sequence uint64) *related.Hint {
	subject := uint32(sequence % 7)
	h := &related.Hint{Path: related.Path([]string{"a/b/c", "a/b/d", "a/e", "f"}[sequence%4]), Vector: make([]int8, 4)}
	for i := range uint32(5) {
		h.Terms = append(h.Terms, (10*subject+2*i)<<8|uint32(sequence%200+1))
		h.Vector[i%4] = int8(subject*i%5) - 2
	}
	return h
}

// tellHints tells a restored planner what its documents are about.
func tellHints(p *plan.Planner) {
	for _, sequence := range p.Unread() {
		p.Tell(sequence, plan.Traits{Hint: hintOf(sequence)})
	}
}

// lostHints are documents of which some cannot be read again one by one.
type lostHints struct {
	*memDocs
	lost func(sequence uint64) bool
}

func (d lostHints) Traits(ctx context.Context, sequence uint64) (plan.Traits, error) {
	if d.lost(sequence) {
		return plan.Traits{}, errPurged
	}
	return d.memDocs.Traits(ctx, sequence)
}

// A checkpoint whose waiting documents cannot be read again is not used: an older one is, or the start of the run, and the steps are
// the same. Where the start is gone too the run does not go on with others.
func TestRestartWithDocumentsGone(t *testing.T) {
	c := config("splice")
	c.Packing.Pool = 20
	serve := func(w *world) []*loader.Batch {
		run, stop := w.start(t)
		got := read(t, run, loader.Place{World: 1}, 0, 30)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	made := func() (*world, []*loader.Batch) {
		w := newWorld(c)
		w.options.Checkpoint = 5
		w.docs.lengths(someLengths(3, 1500)...)
		return w, serve(w)
	}
	for name, lost := range map[string]func(uint64) bool{
		"none":         func(uint64) bool { return false },
		"the youngest": func(sequence uint64) bool { return sequence > 300 },
		"all":          func(uint64) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			w, want := made()
			names, _ := w.checkpoints.List(t.Context())
			if len(names) < 2 {
				t.Fatalf("checkpoints %v, want several", names)
			}
			w.edges = func(e *loader.Edges) { e.Documents = lostHints{w.docs, lost} }
			if got := serve(w); !reflect.DeepEqual(got, want) {
				t.Error("other steps after the restart")
			}
			if w.docs.hints == 0 && name == "none" {
				t.Error("no hint was read again")
			}
		})
	}
	t.Run("the start too", func(t *testing.T) {
		w, _ := made()
		plan := slices.Clone(w.plan.records)
		w.docs.first = uint64(len(w.docs.docs))
		run, err := w.open(t)
		if err == nil {
			err = run.Serve(t.Context())
		}
		if reason(err) != loader.DocumentLost {
			t.Errorf("it says %v, want %s", err, loader.DocumentLost)
		}
		if fmt.Sprint(w.plan.records) != fmt.Sprint(plan) {
			t.Error("the plan has changed")
		}
	})
}
