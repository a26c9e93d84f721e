package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"loaderd/stream"
	"loaderd/stream/planlog"
)

// Removed says what of a run was removed, and what the others need.
type Removed struct {
	planlog.Removed
	// Floors are those of the document streams in which the run had one.
	Floors []StreamFloor
}

// StreamFloor is the least floor of the runs over a document stream.
type StreamFloor struct {
	Stream string
	Runs   int // over the stream
	From   uint64
	By     string // a run that has it
}

// Remove removes all that the server keeps of a run. It takes the lead for the holder meanwhile, so that no daemon leads the run; one that
// does is a *planlog.LedError. Of a run of which nothing is there the error is planlog.ErrNoPlan. After it was broken off it is called again.
func Remove(ctx context.Context, store *stream.Store, run string, holder planlog.Holder) (removed Removed, err error) {
	leads, err := planlog.OpenLeads(ctx, store, run, holder)
	if err != nil {
		return removed, err
	}
	defer func() { err = errors.Join(err, leads.Close()) }()
	lead, err := leads.Seize(ctx)
	if err != nil {
		return removed, err
	}
	defer func() { err = errors.Join(err, lead.Close()) }()
	before, err := planlog.Needs(ctx, store)
	if err != nil {
		return removed, err
	}
	if removed.Removed, err = planlog.Remove(ctx, store, run); err != nil {
		return removed, fmt.Errorf("delete run %s: %w", run, err)
	}
	for _, n := range before {
		if n.Run == run {
			floor, err := least(ctx, store, n.Stream)
			if err != nil {
				return removed, err
			}
			removed.Floors = append(removed.Floors, floor)
		}
	}
	return removed, nil
}

// least returns the least floor of the runs over a document stream that have a plan.
func least(ctx context.Context, store *stream.Store, name string) (f StreamFloor, err error) {
	f.Stream = name
	kept, err := planlog.ListKept(ctx, store)
	if err != nil {
		return f, err
	}
	needs, err := planlog.Needs(ctx, store)
	if err != nil {
		return f, err
	}
	for _, n := range needs {
		there := slices.ContainsFunc(kept, func(k planlog.Kept) bool { return k.Run == n.Run && !k.Begun.IsZero() })
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
