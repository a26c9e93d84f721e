package leader

import (
	"context"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// resize adds a rank's request for another world size to those of the other ranks. Once all agree, the plan records it.
func (h *commandHandler) resize(ctx context.Context, r state.ResizeRequest, q Command) error {
	if err := r.Validate(); err != nil { // another daemon may have sent it
		return h.refuse(ctx, q, "%v", err)
	}
	r.Job = r.JobName()
	if !h.rendezvousRestored { // only now has the applier all records of former leaders
		h.rendezvousRestored = true
		h.rendezvous.Restore(h.applier.WorldSizes, h.began, time.Now())
	}
	if r.Withdraw {
		return h.queue.reply(ctx, q, Result{Resize: &state.ResizeResult{Agreed: h.rendezvous.Withdraw(r)}})
	}
	_, known := h.applier.WorldSizes[r.Job]
	switch planned := h.setup.View.PlannedSteps(); {
	case r.Step > planned:
		return h.refuse(ctx, q, "job %s cannot have %d ranks from step %d: the plan has %d steps, and a world size changes "+
			"between two steps that ranks have read", r.Job, r.World, r.Step, planned)
	case !known && len(h.applier.WorldSizes) >= planrecord.MaxResizedJobs:
		return h.refuse(ctx, q, "%d jobs of the run have changed their world size, and %q would be one more: let one leave "+
			"first", planrecord.MaxResizedJobs, r.Job)
	}
	if r.Restart {
		return h.restart(ctx, r, q)
	}
	now := time.Now()
	result, recorded, err := h.rendezvous.Join(r, now)
	if err != nil || recorded || !result.Agreed {
		return h.queue.reply(ctx, q, Result{Resize: &result, err: err})
	}
	h.rendezvous.Agree(r.Job, now)
	if h.applier.WorldSizes[r.Job] == r.WorldSize() {
		return h.queue.reply(ctx, q, Result{Resize: &result})
	}
	return h.recordResize(ctx, r, q)
}

// restart records the world size of a job that was stopped and starts again.
func (h *commandHandler) restart(ctx context.Context, r state.ResizeRequest, q Command) error {
	err := h.rendezvous.CheckRestart(r, time.Now())
	if err != nil || h.applier.WorldSizes[r.Job].Ranks == r.World {
		return h.queue.reply(ctx, q, Result{Resize: &state.ResizeResult{Agreed: true}, err: err})
	}
	return h.recordResize(ctx, r, q)
}

// recordResize records a world size. It takes effect once it is stored.
func (h *commandHandler) recordResize(ctx context.Context, r state.ResizeRequest, q Command) error {
	e := planrecord.Resize{Job: r.Job, WorldSize: r.WorldSize()}
	h.applier.Record(e)
	commits := h.applier.Commits
	return h.queue.append(ctx, planWrite{records: [][]byte{planrecord.Encode(e)}, onStored: func(context.Context) {
		h.setup.View.SetCommits(commits) // wakes the readers
		h.setup.Log.Info("world size changed", event.WorldSizeChanged, "job", e.Job, "ranks", e.Ranks, "from_step", e.Step)
		q.reply <- Result{Resize: &state.ResizeResult{Agreed: true}}
	}})
}
