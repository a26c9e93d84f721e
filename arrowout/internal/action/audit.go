package action

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"

	"loaderd/arrowout/internal/caller"
	"loaderd/internal/auth"
	"loaderd/internal/event"
	"loaderd/loader/planrecord"
)

// audit logs identities that change a run or query the origin of documents, and those that are refused.
type audit struct{ log *slog.Logger }

func (a audit) logAction(ctx context.Context, who auth.Identity, did Action, q requestBody, err error) {
	args := []any{event.Audit, "identity", who.String(), "role", string(who.Role), "action", did.Name, "address",
		caller.Address(ctx)}
	switch did.Name {
	case "commit":
		args = append(args, "job", q.job, "step", q.step)
	case "resize":
		args = append(args, "job", q.job, "rank", q.report.rank, "world", q.report.world, "step", q.step)
	case "leave":
		args = append(args, "job", q.job)
	case "ledger":
		args = append(args, "step", q.step)
	case "find":
		args = append(args, "source", q.source, "sequence", q.sequence, "id", q.id)
	case "text":
		args = append(args, "source", q.source, "sequence", q.sequence)
	case "peek":
		args = append(args, "source", q.source)
	case "seal":
		if q.source != "" {
			args = append(args, "source", q.source)
		}
	case "filter":
		args = append(args, "source", q.source, "dry_run", q.dryRun)
		if q.where != nil {
			args = append(args, "filter", cmp.Or(*q.where, "none"))
		}
	case "schedule":
		args = append(args, "phases", planrecord.Schedule{Phases: q.phases}.Describe(), "dry_run", q.dryRun)
	case "mix":
		args = append(args, "weights", q.change.Weights, "add", slices.Sorted(maps.Keys(q.change.Add)), "remove",
			q.change.Remove, "dry_run", q.dryRun)
		if q.decided != nil {
			args = append(args, "decided", *q.decided)
		}
	}
	if err != nil {
		args = append(args, "error", err)
	}
	a.log.Log(context.WithoutCancel(ctx), slog.LevelInfo, "audit", args...)
}
