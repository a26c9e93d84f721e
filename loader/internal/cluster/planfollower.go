package cluster

import (
	"context"
	"time"

	"loaderd/loader/internal/leader"
	"loaderd/loader/planview"
)

// pollInterval is the time between two polls of the plan when no heartbeat announces new records.
const pollInterval = 500 * time.Millisecond

// planFollower reads the records that a leader in another process appends to the plan.
type planFollower struct {
	setup      leader.Setup
	leadership *leadership
	remote     *remoteLeader
	planGrew   chan struct{} // signals that the plan may have grown
}

// run follows the plan until ctx is done.
func (f *planFollower) run(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-f.planGrew:
		}
		if f.leadership.current() != nil {
			continue
		}
		if err := f.setup.View.Follow(ctx); err != nil {
			return err
		}
		if err := f.applyOldest(ctx, f.remote.takeOldest()); err != nil {
			return err
		}
		f.leadership.dropOutdated()
	}
}

// applyOldest applies the oldest readable step that the leader's heartbeats announce, as far as evidence supports it.
// Evidence is that every committing job has committed the steps before, or that the stream no longer holds their
// documents.
func (f *planFollower) applyOldest(ctx context.Context, oldest uint64) error {
	v := f.setup.View
	now := v.Snapshot()
	if oldest <= now.Oldest {
		return nil
	}
	committed := now.Commits.Committed()
	v.SetOldest(min(oldest, committed))
	if oldest <= committed {
		return nil
	}
	h, _ := v.Header()
	all, err := f.setup.Streams.RunStreams(ctx, h)
	if err != nil {
		return nil // the next heartbeat repeats it
	}
	there := make(planview.Needs, len(all))
	for i, x := range all {
		state, err := x.Documents.State(ctx)
		if err != nil {
			return nil
		}
		there[i] = state.First
	}
	return v.UpdateOldest(ctx, there)
}
