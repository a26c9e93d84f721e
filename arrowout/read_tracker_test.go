package arrowout_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"loaderd/arrowout"
)

// countingTracker counts reads.
type countingTracker struct{ begun, open atomic.Int64 }

func (c *countingTracker) BeginRead() (done func()) {
	c.begun.Add(1)
	c.open.Add(1)
	return func() { c.open.Add(-1) }
}

// Reads of steps that were ready are tracked, and not those of steps that a reader waited for.
func TestServer_TracksReadsOfReadySteps(t *testing.T) {
	const steps, late = 200, 1
	f := newFake(steps, 4, 16)
	f.onNext = func(_ context.Context, step uint64) error {
		if step == late {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	var tracker countingTracker
	f.onAssemble = func(step uint64) {
		if n := tracker.open.Load(); n != 0 && step == late {
			t.Errorf("step %d was not ready, and %d reads are tracked", step, n)
		}
	}
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(f), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetReadTracker(&tracker)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	for r := mustGet(t, dial(t, s), `{}`); r.Next(); {
	}
	if n := tracker.begun.Load(); n == 0 || n >= steps {
		t.Errorf("%d of %d reads are tracked; one step was late", n, steps)
	}
	if n := tracker.open.Load(); n != 0 {
		t.Errorf("%d reads have not ended", n)
	}
}
