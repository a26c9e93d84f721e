package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"loaderd/internal/event"
	"loaderd/loader/fault"
	"loaderd/loader/planner"
)

// checkpointer takes checkpoints of the planner, at intervals and on request. Only the loop uses it.
type checkpointer struct {
	interval    uint64 // Options.Checkpoint
	fingerprint string // of the run's configuration
	applier     *planner.Applier
	queue       *recordQueue
	uploads     *uploads
	log         *slog.Logger
	requests    []Command // pending while a checkpoint is being stored
	saved       uint64    // step of the last checkpoint
}

// checkpoint takes a checkpoint if interval steps were planned since the last one and none is being stored, or always
// if forced. If a checkpoint cannot be stored, the only effect is a longer next restart.
func (c *checkpointer) checkpoint(ctx context.Context, force bool) error {
	next := c.applier.Planner.Next()
	due := next != c.saved && next >= c.saved+c.interval && !c.uploads.busy()
	if !c.uploads.enabled() || c.interval == 0 || !force && !due {
		return nil
	}
	return c.save(ctx, func(err error) {
		if err != nil {
			c.log.Warn("checkpoint not stored; a restart replays from an older one", event.CheckpointFailed, "step", next,
				"error", err)
		}
	})
}

// maxCheckpointRequests bounds the number of pending requests while a checkpoint is being stored.
const maxCheckpointRequests = 64

// request takes a checkpoint on request. While a checkpoint is being stored, requests are queued; the next checkpoint
// serves all of them.
func (c *checkpointer) request(ctx context.Context, q Command) error {
	switch {
	case c.applier.Ended:
		return c.queue.reply(ctx, q, refusal(fault.BadTicket,
			"the run has ended at step %d: its plan is complete and needs no checkpoint", c.applier.Planner.Next()))
	case !c.uploads.enabled():
		return c.queue.reply(ctx, q, refusal(fault.BadTicket, "this run has no place for checkpoints"))
	case len(c.requests) == maxCheckpointRequests:
		q.reply <- Result{err: &fault.Error{Reason: fault.PlanLogDown,
			Message: fmt.Sprintf("%d requests wait for a checkpoint", maxCheckpointRequests),
			Do:      "check the JetStream server and its disk, and ask again"}}
		return nil
	}
	c.requests = append(c.requests, q)
	return c.serve(ctx)
}

// serve takes a checkpoint for the queued requests, unless one is still being stored.
func (c *checkpointer) serve(ctx context.Context) error {
	if len(c.requests) == 0 || c.uploads.busy() {
		return nil
	}
	requests, step := c.requests, c.applier.Planner.Next()
	c.requests = nil
	return c.save(ctx, func(err error) {
		switch {
		case errors.Is(err, fault.ErrLeadershipLost), errors.Is(err, context.Canceled): // this process no longer leads
			err = fault.ErrNoLeader
		case err != nil:
			err = &fault.Error{Reason: fault.PlanLogDown, Message: "the checkpoint was not stored", Err: err,
				Do: "check the JetStream server and its disk, and ask again"}
		}
		for _, q := range requests {
			q.reply <- Result{At: step, err: err}
		}
	})
}

// save takes a checkpoint and stores it once the plan log holds all records that it covers. done receives the result.
func (c *checkpointer) save(ctx context.Context, done func(error)) error {
	c.saved = c.applier.Planner.Next()
	x := upload{c.saved, c.applier.Checkpoint(c.fingerprint, c.queue.tail), done}
	c.uploads.pending.Add(1)
	return c.queue.append(ctx, write{stored: func(ctx context.Context) { c.uploads.put(ctx, x) }})
}
