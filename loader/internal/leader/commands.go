package leader

import (
	"context"
	"fmt"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/internal/forecast"
	"loaderd/loader/internal/rendezvous"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// Command asks the leader to record an entry of the plan or to take a checkpoint.
type Command struct {
	Entry planrecord.Entry // entry to record, a control without its place; nil requests a checkpoint
	reply chan<- Result
	// DryRun checks a change of the mixture without recording it.
	DryRun bool
	// Resize is a rank's request for another world size; nil for other commands.
	Resize *state.ResizeRequest
	// inspect receives the loop's applier and tail, and nothing is recorded; nil for other commands.
	inspect func(*planner.Applier, planrecord.Tail)
}

// Result is the result of a Command: a change of the mixture or of a world size, a document's sequence for other
// controls, a step for commits and checkpoints.
type Result struct {
	At     uint64
	Mix    *state.MixResult
	Resize *state.ResizeResult
	err    error
}

func refusal(reason fault.Reason, format string, args ...any) Result {
	return Result{err: &fault.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// commandHandler executes commands. It records the requested entry, and replies if nothing has to be recorded. Only
// the loop uses it.
type commandHandler struct {
	setup         Setup
	header        planrecord.Header
	applier       *planner.Applier
	queue         *recordQueue
	checkpoints   *checkpointer
	demand        *readerDemand
	length        *forecast.Estimator
	sealNotifier  *sealNotifier
	recentChanges recentChanges
	rendezvous    rendezvous.Rendezvous
	// rendezvousRestored reports whether the rendezvous has the world sizes of the plan at the beginning of the term.
	rendezvousRestored bool
	began              time.Time // of the term
}

// handle executes a command.
func (h *commandHandler) handle(ctx context.Context, q Command) error {
	switch e := q.Entry.(type) {
	case nil:
		if q.inspect != nil {
			q.inspect(h.applier, h.queue.tail)
			q.reply <- Result{}
			return nil
		}
		if q.Resize != nil {
			return h.resize(ctx, *q.Resize, q)
		}
		return h.checkpoints.handleRequest(ctx, q)
	case planrecord.Commit:
		return h.commit(ctx, e, q)
	case planrecord.Leave:
		_, commits := h.applier.Commits[e.Job]
		if _, resized := h.applier.WorldSizes[e.Job]; !commits && !resized {
			return h.queue.reply(ctx, q, Result{At: h.applier.Commits.Committed()})
		}
		return h.recordCommits(ctx, e, q)
	case planrecord.Seal:
		return h.sealAll(ctx, e, q)
	case planrecord.Control:
		return h.handleControl(ctx, e, q)
	}
	q.reply <- refusal(fault.InvalidTicket, "a record of kind %d cannot be requested", q.Entry.Kind())
	return nil
}

// commit records the commit of a job.
func (h *commandHandler) commit(ctx context.Context, c planrecord.Commit, q Command) error {
	planned, commits := h.setup.View.PlannedSteps(), h.applier.Commits
	_, known := commits[c.Job]
	step, changes := commits.StepAfter(c)
	if !known { // documents that the other jobs have committed may be purged, except those that its own job retains
		step = max(step, min(commits.Committed(), h.demand.retainedStep(c.Job)))
	}
	switch {
	case c.Step > planned:
		return h.refuse(ctx, q, "commit of step %d, but the plan holds %d steps", c.Step, planned)
	case !known && len(commits) == planrecord.MaxCommittingJobs:
		return h.refuse(ctx, q, "the run has %d committing jobs, and %q would be one more: let one leave first",
			planrecord.MaxCommittingJobs, c.Job)
	case !changes:
		return h.queue.reply(ctx, q, Result{At: commits.Committed()})
	}
	return h.recordCommits(ctx, planrecord.Commit{Job: c.Job, Step: step, Skipped: c.Skipped}, q)
}

// recordCommits records a change of committing jobs. It takes effect once it is stored.
func (h *commandHandler) recordCommits(ctx context.Context, e planrecord.Entry, q Command) error {
	h.applier.Record(e)
	commits := h.applier.Commits
	return h.queue.append(ctx, planWrite{records: [][]byte{planrecord.Encode(e)}, onStored: func(context.Context) {
		h.setup.View.SetCommits(commits)
		q.reply <- Result{At: commits.Committed()}
	}})
}

// recordControl records a control. It takes effect once the planner has read the arrival that it is placed after.
func (h *commandHandler) recordControl(ctx context.Context, c planrecord.Control, stored func(context.Context)) error {
	h.applier.Record(c)
	h.length.RecordControl()
	return h.queue.append(ctx, planWrite{records: [][]byte{planrecord.Encode(c)}, onStored: stored})
}

// refuse replies that a command cannot be executed as it is.
func (h *commandHandler) refuse(ctx context.Context, q Command, format string, args ...any) error {
	return h.queue.reply(ctx, q, refusal(fault.InvalidTicket, format, args...))
}

// unknownEndResult returns the result while the last document is unknown.
func unknownEndResult(err error) Result {
	return Result{err: &fault.Error{Reason: fault.SourceDown, Message: "cannot read the end of the document stream",
		Err: err, Advice: "try again"}}
}
