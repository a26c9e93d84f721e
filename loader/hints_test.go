package loader_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// lostHints is a document stream in which the packing hints of some documents cannot be read again.
type lostHints struct {
	*memDocs
	lost func(sequence uint64) bool
}

func (d lostHints) PackingHints(ctx context.Context, sequence uint64) ([]plan.Part, error) {
	if d.lost(sequence) {
		return nil, errPurged
	}
	return d.memDocs.PackingHints(ctx, sequence)
}

// A checkpoint is not used if hints of its buffered documents cannot be read again. An older checkpoint or the start
// of the run is used, and the steps are the same. If the start is purged too, the run does not start.
func TestHints_CheckpointNeedsHintsOfBufferedDocuments(t *testing.T) {
	c := config("splice")
	c.Packing.Pool = 20
	serve := func(w *fixture) []*assembly.Batch {
		run, stop := w.start(t)
		got := read(t, run, state.RankID{World: 1}, 0, 30)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	made := func() (*fixture, []*assembly.Batch) {
		w := newFixture(c)
		w.options.CheckpointSteps = 5
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
			w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: lostHints{w.docs, lost}} }
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
		plan := decisions(t, w.plan.records)
		w.docs.first = uint64(len(w.docs.docs))
		run, err := w.open(t)
		if err == nil {
			err = run.Serve(t.Context())
		}
		if reason(err) != fault.DocumentLost {
			t.Errorf("it reports %v, want %s", err, fault.DocumentLost)
		}
		if fmt.Sprint(decisions(t, w.plan.records)) != fmt.Sprint(plan) {
			t.Error("the plan has changed")
		}
	})
}
