package leader

import (
	"context"
	"maps"
	"slices"

	"loaderd/loader/planrecord"
)

// changeSchedule records a change of the schedule of steps. It refuses phases whose rows the ranks of a reading job
// cannot share.
func (h *commandHandler) changeSchedule(ctx context.Context, c planrecord.Schedule, q Command) error {
	step := h.applier.Planner.Next()
	s, err := h.applier.Planner.ChangedSchedule(c.Phases)
	if err != nil {
		return h.refuse(ctx, q, "%v", err)
	}
	jobs := h.demand.jobs()
	for _, p := range s.PhasesFrom(step) {
		for _, job := range slices.Sorted(maps.Keys(jobs)) {
			if x := jobs[job]; x.HasReaders() && p.Divisor()%x.World != 0 {
				return h.refuse(ctx, q, "the %d ranks of job %s cannot share steps of %v rows (per bucket, in parts of %d): use "+
					"multiples of %d rows, or stop the job first", x.World, job, p.StepRows, p.Divisor(), x.World)
			}
		}
	}
	if q.DryRun {
		return h.queue.reply(ctx, q, Result{At: step})
	}
	h.recentChanges.add(c, step)
	return h.recordControl(ctx, c.PlaceAfter(h.applier.Planner.Clock()), func(context.Context) {
		q.reply <- Result{At: step}
	})
}
