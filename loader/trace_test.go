package loader_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/state"
)

// tracer records the calls of Planned, by document.
type tracer struct {
	mu      sync.Mutex
	planned map[uint64][]string
}

func (x *tracer) OnPlanned(t *document.Trace, document, step uint64, row int, taken, stored time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.planned[document] = append(x.planned[document], fmt.Sprintf("%d: step %d row %d", t.ID[0], step, row))
	if taken.IsZero() || stored.Before(taken) {
		x.planned[document] = append(x.planned[document], fmt.Sprintf("from %s to %s", taken, stored))
	}
}

// The tracer is called once per sampled document, with the position of its first token, when that is in the plan log.
// A replay does not call it again. A batch names the sampled documents that begin in it.
func TestTrace_SampledDocumentsAreTracedOnce(t *testing.T) {
	w, told := newFixture(config("concat")), &tracer{planned: map[uint64][]string{}}
	w.options.CheckpointSteps = 0 // a restart replays everything
	w.edges = func(e *backend.Backends) { e.Tracer = told }
	for i, n := range someLengths(4, 100) {
		d := document.Document{Content: document.Content{Tokens: documentTokens(uint64(i+1), n)}}
		if i%7 == 0 {
			d.Trace = &document.Trace{ID: [16]byte{byte(i)}}
		}
		w.docs.publish(d)
	}
	run, stop := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[uint64][]string{}
	for _, b := range read(t, run, state.RankID{World: 1}, 0, 0) {
		for _, d := range b.TracedDocuments {
			want[d.Document] = append(want[d.Document], fmt.Sprintf("%d: step %d row %d", d.ID[0], b.Step, d.Row))
			if b.Pieces[d.Row-b.First] == nil {
				t.Errorf("row %d of step %d is empty", d.Row, b.Step)
			}
		}
	}
	if len(want) != 15 {
		t.Errorf("batches name %d sampled documents: %v", len(want), want)
	}
	stop()
	run, _ = w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 0)
	told.mu.Lock()
	defer told.mu.Unlock()
	if !maps.EqualFunc(told.planned, want, slices.Equal) {
		t.Errorf("the tracer received\n%v\nwant\n%v", told.planned, want)
	}
}
