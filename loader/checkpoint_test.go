package loader_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"loaderd/loader"
)

// slowCheckpoints holds every Put until it is let through or its context ends.
type slowCheckpoints struct {
	*memCheckpoints
	puts    atomic.Int64 // begun
	through chan struct{}
}

func (c *slowCheckpoints) Put(ctx context.Context, name string, data []byte) error {
	c.puts.Add(1)
	select {
	case <-c.through:
		return c.memCheckpoints.Put(ctx, name, data)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A commit that was on its way to the log when the checkpoint behind it was taken is not forgotten by the next process.
func TestCheckpointCoversCommitsOnTheirWay(t *testing.T) {
	w := newWorld(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 40)...)
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	through := make(chan struct{})
	w.plan.hold(through)
	done := make(chan error, 2)
	go func() { done <- run.Commit(t.Context(), 2) }()
	eventually(func() (*testing.T, func() bool) {
		return t, func() bool { return w.plan.waits.Load() > 0 }
	}())
	go func() { _, err := run.Checkpoint(t.Context()); done <- err }()
	eventually(t, func() bool { return run.Waiting() > 0 })
	close(through)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	run, _ = w.start(t)
	eventually(t, func() bool { return !run.Stats().Replaying })
	if c := run.Info().Committed; c != 2 {
		t.Fatalf("committed is %d after the restart, want 2", c)
	}
}

var _ = errors.Is
var _ = reflect.DeepEqual
var _ = time.Second
var _ = loader.SkipEmpty
