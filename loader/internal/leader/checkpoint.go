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
	uploads     *uploadQueue
	log         *slog.Logger
	requests    []Command // pending while a checkpoint is being stored
	lastStep    uint64    // step of the last checkpoint
}

// checkpointIfDue takes a checkpoint if interval steps were planned since the last one and none is being stored, or
// always if forced. If a checkpoint cannot be stored, the only effect is a longer next restart.
func (c *checkpointer) checkpointIfDue(ctx context.Context, force bool) error {
	next := c.applier.Planner.Next()
	due := next != c.lastStep && next >= c.lastStep+c.interval && !c.uploads.isBusy()
	if !c.uploads.isEnabled() || c.interval == 0 || !force && !due {
		return nil
	}
	return c.saveCheckpoint(ctx, func(err error) {
		if err != nil {
			c.log.Warn("checkpoint not stored; a restart replays from an older one", event.CheckpointFailed, "step", next,
				"error", err)
		}
	})
}

// maxCheckpointRequests bounds the number of pending requests while a checkpoint is being stored.
const maxCheckpointRequests = 64

// handleRequest takes a checkpoint on request. While a checkpoint is being stored, requests are queued; the next
// checkpoint serves all of them.
func (c *checkpointer) handleRequest(ctx context.Context, q Command) error {
	switch {
	case c.applier.Ended:
		return c.queue.reply(ctx, q, refusal(fault.InvalidTicket,
			"the run has ended at step %d: its plan is complete and needs no checkpoint", c.applier.Planner.Next()))
	case !c.uploads.isEnabled():
		return c.queue.reply(ctx, q, refusal(fault.InvalidTicket, "this run has no place for checkpoints"))
	case len(c.requests) == maxCheckpointRequests:
		q.reply <- Result{err: &fault.Error{Reason: fault.PlanLogDown,
			Message: fmt.Sprintf("%d requests wait for a checkpoint", maxCheckpointRequests),
			Advice:  "check the JetStream server and its disk, and ask again"}}
		return nil
	}
	c.requests = append(c.requests, q)
	return c.serveRequests(ctx)
}

// serveRequests takes a checkpoint for the queued requests, unless one is still being stored.
func (c *checkpointer) serveRequests(ctx context.Context) error {
	if len(c.requests) == 0 || c.uploads.isBusy() {
		return nil
	}
	requests, step := c.requests, c.applier.Planner.Next()
	c.requests = nil
	return c.saveCheckpoint(ctx, func(err error) {
		switch {
		case errors.Is(err, fault.ErrLeadershipLost), errors.Is(err, context.Canceled): // this process no longer leads
			err = fault.ErrNoLeader
		case err != nil:
			err = &fault.Error{Reason: fault.PlanLogDown, Message: "the checkpoint was not stored", Err: err,
				Advice: "check the JetStream server and its disk, and ask again"}
		}
		for _, q := range requests {
			q.reply <- Result{At: step, err: err}
		}
	})
}

// saveCheckpoint takes a checkpoint and stores it once the plan log holds all records that it covers. done receives the
// result.
func (c *checkpointer) saveCheckpoint(ctx context.Context, done func(error)) error {
	c.lastStep = c.applier.Planner.Next()
	x := upload{c.lastStep, c.applier.Checkpoint(c.fingerprint, c.queue.tail), done}
	c.uploads.pending.Add(1)
	return c.queue.append(ctx, planWrite{onStored: func(ctx context.Context) { c.uploads.enqueue(ctx, x) }})
}
