package action

import (
	"context"
	"encoding/json"
	"fmt"

	"loaderd/arrowout/internal/caller"
	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/request"
	"loaderd/internal/api"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// rankReport is the body of the action consumed.
type rankReport struct {
	rank, world, peer uint64
	job               string
	state.Consumption
}

// keys returns the decoders of the body's keys.
func (r *rankReport) keys() map[string]func(json.RawMessage) error {
	r.world = 1
	return map[string]func(json.RawMessage) error{"rank": request.Number(&r.rank, 0, request.MaxWorld-1),
		"world": request.Number(&r.world, 1, request.MaxWorld), "peer": request.Number(&r.peer, 0, request.MaxWorld-1),
		"job": request.JobName(&r.job), "session": request.SessionID(&r.Session),
		"taken": request.Number(&r.Delivered, 0, request.MaxNumber), "waiting": request.Boolean(&r.Waiting),
		"still": request.Seconds(&r.SinceChange), "left": request.Boolean(&r.Left)}
}

func (r *rankReport) rankID() state.RankID {
	return state.RankID{Job: r.job, Rank: int(r.rank), World: int(r.world), Peer: int(r.peer)}
}

// consumed records what the trainer of a rank has taken.
func (h *Handler) consumed(ctx context.Context, q requestBody, send func(any) error) error {
	who, r := caller.Identity(ctx), q.report
	if r.job == "" {
		r.job = who.Job(planrecord.DefaultJob)
	} else if !who.MayCommitFor(r.job) {
		return refusal.Forbidden(who, fmt.Sprintf("job %s is not its own", refusal.Excerpt([]byte(r.job))))
	}
	h.report(r.rankID(), r.Session)
	receipt := h.run.RecordConsumption(r.rankID(), r.Consumption)
	return send(api.ConsumedResponse{Run: h.run.Info().Run, Known: receipt.Known, Window: receipt.Window,
		Alert: receipt.Alert})
}
