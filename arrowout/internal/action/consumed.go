package action

import (
	"context"
	"encoding/json"

	"loaderd/arrowout/internal/request"
	"loaderd/internal/api"
	"loaderd/loader/state"
)

// rankReport is the body of the action consumed.
type rankReport struct {
	rank, world, peer uint64
	state.Consumption
}

// keys returns the decoders of the body's keys.
func (r *rankReport) keys() map[string]func(json.RawMessage) error {
	r.world = 1
	return map[string]func(json.RawMessage) error{"rank": request.Number(&r.rank, 0, request.MaxWorld-1),
		"world": request.Number(&r.world, 1, request.MaxWorld), "peer": request.Number(&r.peer, 0, request.MaxWorld-1),
		"session": request.SessionID(&r.Session),
		"taken":   request.Number(&r.Delivered, 0, request.MaxNumber), "waiting": request.Boolean(&r.Waiting),
		"still": request.Seconds(&r.SinceChange), "left": request.Boolean(&r.Left)}
}

// rankID returns the place of the rank.
func (r *rankReport) rankID(job string) state.RankID {
	return state.RankID{Job: job, Rank: int(r.rank), World: int(r.world), Peer: int(r.peer)}
}

// consumed records what the trainer of a rank has taken.
func (h *Handler) consumed(_ context.Context, q requestBody, send func(any) error) error {
	r := q.report
	at := r.rankID(q.job)
	h.report(at, r.Session)
	receipt := h.run.RecordConsumption(at, r.Consumption)
	return send(api.ConsumedResponse{Run: h.run.Info().Run, Known: receipt.Known, Window: receipt.Window,
		Alert: receipt.Alert})
}
