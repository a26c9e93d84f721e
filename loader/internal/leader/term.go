package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
)

// termPause is how long the next attempt to begin a term waits: someone else appends, or the end of the plan that was read is an old one.
const termPause = 5 * time.Millisecond

// lead begins a term: the record of it follows whatever the plan holds by now. From there on nobody who led before appends to the plan.
// The records up to it are planned again, those too that have come since the plan was opened.
func (l *Leader) lead(ctx context.Context) error {
	record := plan.EncodeRecord(plan.Term{Daemon: l.Backends.Daemon})
	for {
		last, err := l.Backends.Plan.Last(ctx)
		if err != nil {
			return fmt.Errorf("read plan log: %w", err)
		}
		err = l.Backends.Plan.Append(ctx, last, record)
		if err == nil {
			l.term = last + 1
			l.Log.Info("this process leads the run", "term", l.term)
			return l.claim(ctx)
		}
		if !errors.Is(err, fault.ErrLeadershipLost) {
			return fmt.Errorf("append to the plan log: %w", err)
		}
		if err := waiting.Pause(ctx, termPause); err != nil {
			return err
		}
	}
}

// claim makes the term the only one that stores checkpoints and gives up documents. Where others have stored checkpoints since this process
// looked, the planner begins with the newest of now: the documents that an older one needs may be gone.
func (l *Leader) claim(ctx context.Context) error {
	l.mu.Lock()
	seen := l.stored
	l.mu.Unlock()
	stored, err := planview.ClaimCheckpoints(ctx, l.Backends, l.term, l.fresh || l.found.Bare)
	if err != nil {
		return l.deposed(err)
	}
	first, err := l.Streams.Claim(ctx, l.term, l.header)
	if err != nil {
		return l.deposed(err)
	}
	if !slices.EqualFunc(stored, seen, func(a, b backend.Stored) bool { return a.Name == b.Name }) {
		if err := l.again(ctx, stored); err != nil {
			return err
		}
	}
	return l.View.Release(ctx, first)
}

// again restores the planner once more, from these checkpoints.
func (l *Leader) again(ctx context.Context, stored []backend.Stored) error {
	header, err := l.Backends.Plan.Get(ctx, 1)
	if err != nil {
		return fmt.Errorf("read plan header: %w", err)
	}
	l.tail = plan.TailOf(1, header)
	if l.found, err = l.View.Reader.End(ctx); err != nil {
		return fmt.Errorf("read end of plan: %w", err)
	}
	if err := l.restore(ctx, stored); err != nil {
		return err
	}
	l.covered()
	l.View.Opened(openedPlan(l))
	return nil
}

// deposed turns ErrLeadershipLost into the reason why this process does not lead any more. Other errors stay as they are.
func (l *Leader) deposed(err error) error {
	if !errors.Is(err, fault.ErrLeadershipLost) {
		return err
	}
	return &fault.Error{Reason: fault.NotLeading, Message: "another process leads run " + l.Name, Err: err, Do: "let it lead, or stop it and restart this one"}
}
