package leader

import (
	"context"
	"errors"
	"fmt"

	"loaderd/loader/fault"
)

// checkpoint saves the planner's state when Options.Checkpoint steps have come since the last checkpoint and none is
// being stored, or always when forced. If it cannot be stored, the next restart takes longer and nothing else is lost.
func (l *loop) checkpoint(ctx context.Context, force bool) error {
	every, next := uint64(l.leader.setup.Options.Checkpoint), l.applier.Planner.Next()
	due := next != l.saved && next >= l.saved+every && l.uploads.under.Load() == 0
	if l.leader.setup.Backends.Checkpoints == nil || every == 0 || l.replay != nil || !force && !due {
		return nil
	}
	return l.save(ctx, func(err error) {
		if err != nil {
			l.leader.setup.Log.Warn("checkpoint not stored; a restart will re-plan from an older one", "step", next, "error", err)
		}
	})
}

// maxAskers bounds how many requests wait while a checkpoint is being stored.
const maxAskers = 64

// ask saves the planner's state for a request. While a checkpoint is being stored requests wait; the next checkpoint
// answers them all.
func (l *loop) ask(ctx context.Context, q Command) error {
	switch {
	case l.applier.Ended:
		return l.tell(ctx, q, refusal(fault.BadTicket, "the run has ended at step %d: its plan is complete and needs no checkpoint", l.applier.Planner.Next()))
	case l.leader.setup.Backends.Checkpoints == nil:
		return l.tell(ctx, q, refusal(fault.BadTicket, "this run has no place for checkpoints"))
	case len(l.askers) == maxAskers:
		q.reply <- Result{err: &fault.Error{Reason: fault.PlanLogDown, Message: fmt.Sprintf("%d requests wait for a checkpoint", maxAskers),
			Do: "check the JetStream server and its disk, and ask again"}}
		return nil
	}
	l.askers = append(l.askers, q)
	return l.answer(ctx)
}

// answer saves the planner's state for the requests that wait, unless a checkpoint is still being stored.
func (l *loop) answer(ctx context.Context) error {
	if len(l.askers) == 0 || l.uploads.under.Load() > 0 {
		return nil
	}
	askers, step := l.askers, l.applier.Planner.Next()
	l.askers = nil
	return l.save(ctx, func(err error) {
		switch {
		case errors.Is(err, fault.ErrLeadershipLost), errors.Is(err, context.Canceled): // this process leads no more
			err = fault.ErrNoLeader
		case err != nil:
			err = &fault.Error{Reason: fault.PlanLogDown, Message: "the checkpoint was not stored", Err: err,
				Do: "check the JetStream server and its disk, and ask again"}
		}
		for _, q := range askers {
			q.reply <- Result{At: step, err: err}
		}
	})
}

// save takes the planner's state and has it stored once the plan log holds all records that it covers. done gets the
// result.
func (l *loop) save(ctx context.Context, done func(error)) error {
	a := l.applier
	l.saved = a.Planner.Next()
	x := upload{l.saved, a.Checkpoint(l.leader.restorer.header.Fingerprint, l.tail), done}
	l.uploads.under.Add(1)
	return l.append(ctx, write{stored: func(ctx context.Context) { l.uploads.put(ctx, x) }})
}
