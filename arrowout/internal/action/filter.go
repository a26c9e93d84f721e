package action

import (
	"context"

	"loaderd/arrowout/internal/caller"
	"loaderd/internal/api"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// filter replaces a filter, or reports the filters in effect.
func (h *Handler) filter(ctx context.Context, q requestBody, send func(any) error) error {
	if q.where == nil && (q.dryRun || q.source != "") {
		return invalidBodyError("filter", "source and dry_run need a change", `send "where" as well, empty for no filter`)
	}
	info, stats := h.run.Info(), h.run.Stats()
	if len(stats.Sources) == 0 {
		return &fault.Error{Reason: fault.NotLeading, Message: "no daemon that plans the run has reported its filters yet",
			Advice: "ask again"}
	}
	answer := api.FilterResponse{Run: info.Run, Step: info.Planned, DryRun: q.dryRun, Where: stats.Where,
		Sources: map[string]string{}, Rejected: stats.Skipped.Count(plan.SkipFiltered)}
	for _, s := range stats.Sources {
		answer.Documents += s.Arrived
		if s.Where != "" && !s.Removed {
			answer.Sources[s.Name] = s.Where
		}
	}
	if q.where == nil {
		return send(answer)
	}
	step, err := h.run.Filter(ctx, state.FilterRequest{Source: q.source, Where: *q.where, By: caller.Identity(ctx).Name,
		DryRun: q.dryRun})
	if err != nil {
		return err
	}
	answer.Step = step
	switch {
	case q.source == "":
		answer.Where = *q.where
	case *q.where == "":
		delete(answer.Sources, q.source)
	default:
		answer.Sources[q.source] = *q.where
	}
	return send(answer)
}
