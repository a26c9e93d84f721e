package runadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"loaderd/stream"
	"loaderd/stream/lease"
	"loaderd/stream/retention"
	"loaderd/stream/runstate"
)

// Removal lists what was removed of a run, and what the remaining runs need.
type Removal struct {
	runstate.Removed
	// LowWatermarks are the remaining low watermarks of the document streams in which the run had one.
	LowWatermarks []StreamWatermark
}

// StreamWatermark is the lowest low watermark of the runs over a document stream.
type StreamWatermark struct {
	Stream string
	Runs   int // over the stream
	From   uint64
	By     string // a run with this low watermark
}

// Remove removes all state of a run on the server. It holds the lease meanwhile, so that no daemon leads the run. It
// returns *lease.HeldError while a daemon leads the run, and planlog.ErrNoPlan if nothing of the run exists. After an
// interruption it can be called again.
func Remove(ctx context.Context, store *stream.Store, run string, self lease.LeaderInfo) (removed Removal, err error) {
	elector, err := runstate.NewElector(ctx, store, run, self)
	if err != nil {
		return removed, err
	}
	defer func() { err = errors.Join(err, elector.Close()) }()
	held, err := elector.TryAcquire(ctx)
	if err != nil {
		return removed, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	before, err := retention.ListWatermarks(ctx, store)
	if err != nil {
		return removed, err
	}
	if removed.Removed, err = runstate.Remove(ctx, store, run); err != nil {
		return removed, fmt.Errorf("delete run %s: %w", run, err)
	}
	for _, n := range before {
		if n.Run == run {
			lowWatermark, err := lowestWatermark(ctx, store, n.Stream)
			if err != nil {
				return removed, err
			}
			removed.LowWatermarks = append(removed.LowWatermarks, lowWatermark)
		}
	}
	return removed, nil
}

// lowestWatermark returns the lowest low watermark of the runs over a document stream that have a plan.
func lowestWatermark(ctx context.Context, store *stream.Store, name string) (f StreamWatermark, err error) {
	f.Stream = name
	kept, err := runstate.List(ctx, store)
	if err != nil {
		return f, err
	}
	needs, err := retention.ListWatermarks(ctx, store)
	if err != nil {
		return f, err
	}
	for _, n := range needs {
		there := slices.ContainsFunc(kept, func(k runstate.Run) bool { return k.Name == n.Run && !k.Created.IsZero() })
		if n.Stream != name || !there {
			continue
		}
		if f.Runs == 0 || n.From < f.From {
			f.From, f.By = n.From, n.Run
		}
		f.Runs++
	}
	return f, nil
}
