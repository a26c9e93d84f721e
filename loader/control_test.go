package loader_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

func TestFlushGoesOn(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(9, 40)...)
	run, stop := w.start(t)
	if at, err := run.Flush(t.Context()); err != nil || at != 40 {
		t.Fatalf("Flush = %d, %v", at, err)
	}
	w.docs.lengths(someLengths(10, 60)...)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := read(t, run, state.RankID{World: 1}, 0, 0)
	if at, err := run.Seal(t.Context()); err != nil || at != 100 {
		t.Fatalf("second Seal = %d, %v", at, err)
	}
	if _, err := run.Flush(t.Context()); reason(err) != fault.InvalidTicket {
		t.Fatalf("Flush after the end: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	clear(w.checkpoints.data)
	run, _ = w.start(t)
	if got := read(t, run, state.RankID{World: 1}, 0, 0); !reflect.DeepEqual(got, want) {
		t.Fatal("the replayed run differs")
	}
}

// shrinkingDocs reports an earlier end of the stream in some responses, as a server that has lost leadership can.
type shrinkingDocs struct {
	*memDocs
	lasts chan uint64
}

func (d shrinkingDocs) State(ctx context.Context) (document.StreamState, error) {
	s, err := d.memDocs.State(ctx)
	select {
	case s.Last = <-d.lasts:
	default:
	}
	return s, err
}

// Controls take effect in the order in which they were recorded.
func TestControls_TakeEffectInRecordedOrder(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(1, 100)...)
	w.options.Ahead = 1
	lasts := make(chan uint64, 2)
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: shrinkingDocs{w.docs, lasts}} }
	run, stop := w.start(t)
	lasts <- 100
	if at, err := run.Flush(t.Context()); err != nil || at != 100 {
		t.Fatal(at, err)
	}
	lasts <- 95
	if at, err := run.Seal(t.Context()); err != nil || at != 100 {
		t.Fatalf("Seal = %d, %v, want 100", at, err)
	}
	read(t, run, state.RankID{World: 1}, 0, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// silentDocs fails a number of State calls.
type silentDocs struct {
	*memDocs
	silent *atomic.Int64
}

func (d silentDocs) State(ctx context.Context) (document.StreamState, error) {
	if d.silent.Add(-1) >= 0 {
		return document.StreamState{}, &fault.Error{Reason: fault.SourceDown, Message: "no leader"}
	}
	return d.memDocs.State(ctx)
}

// A restarted run waits for a document stream whose servers do not respond yet.
func TestOpen_WaitsForUnresponsiveStream(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(1, 500)...)
	var silent atomic.Int64
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: silentDocs{w.docs, &silent}} }
	run, stop := w.start(t)
	want := read(t, run, state.RankID{World: 1}, 0, 2)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	silent.Store(3)
	run, stop = w.start(t)
	if got := read(t, run, state.RankID{World: 1}, 0, 2); !reflect.DeepEqual(got, want) || silent.Load() >= 0 {
		t.Errorf("the run differs, or nobody asked again (%d)", silent.Load())
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
