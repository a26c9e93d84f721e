package action

import (
	"bytes"
	"context"
	"encoding/json"

	"loaderd/arrowout/internal/caller"
	"loaderd/internal/api"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// readPhases reads the phases of a schedule. It rejects unknown keys.
func readPhases(to *[]runconfig.Phase) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		return d.Decode(to)
	}
}

// schedule replaces the phases of the steps that have not begun, or reports the present ones.
func (h *Handler) schedule(ctx context.Context, q requestBody, send func(any) error) (err error) {
	info := h.run.Info()
	answer := api.ScheduleResponse{Run: info.Run, Step: info.Planned, DryRun: q.dryRun, Schedule: info.Schedule}
	if q.requestID != "" && (q.dryRun || len(q.phases) == 0) {
		return invalidBodyError("schedule", "request_id needs a change that is applied", `send "phases", and no "dry_run"`)
	}
	if len(q.phases) > 0 {
		answer.Step, err = h.run.ChangeSchedule(ctx, state.ScheduleRequest{Phases: q.phases, By: caller.Identity(ctx).Name,
			Request: q.requestID, DryRun: q.dryRun})
		if err != nil {
			return err
		}
		answer.Schedule = h.run.Info().Schedule
	}
	return send(answer)
}
