package action

import (
	"context"
	"encoding/json"
	"fmt"

	"loaderd/arrowout/internal/caller"
	"loaderd/arrowout/internal/request"
	"loaderd/internal/api"
	"loaderd/loader/state"
)

// readSkips reads ranges [begin, end) of steps in ascending order, and writes them as text.
func readSkips(to *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var ranges [][]uint64
		if err := json.Unmarshal(raw, &ranges); err != nil {
			return fmt.Errorf("want ranges [begin, end) of steps")
		}
		after := uint64(0)
		for _, r := range ranges {
			if len(r) != 2 || r[0] < after || r[1] <= r[0] {
				return fmt.Errorf("want ascending ranges [begin, end) of steps, %v is not", r)
			}
			after = r[1]
		}
		if len(ranges) == 0 {
			return nil
		}
		text, err := json.Marshal(ranges)
		*to = string(text)
		return err
	}
}

// resize adds a rank's request for another world size of its job.
func (h *Handler) resize(ctx context.Context, q requestBody, send func(any) error) error {
	place := q.report.rankID(q.job)
	if err := request.CheckRank(place.Rank, place.World); err != nil {
		return err
	}
	if !q.report.Left {
		done, err := h.limits.job(caller.Identity(ctx), q.job, h.run.Info())
		if err != nil {
			return err
		}
		defer done()
	}
	result, err := h.run.Resize(ctx, state.ResizeRequest{RankID: place, Session: q.report.Session, Request: q.requestID,
		Step: q.step, Skips: q.skips, Withdraw: q.report.Left})
	if err != nil {
		return err
	}
	if result.Agreed {
		h.audit.logAction(ctx, caller.Identity(ctx), Action{Name: "resize"}, q, nil)
	}
	return send(api.ResizeResponse{Run: h.run.Info().Run, ResizeResult: result})
}
