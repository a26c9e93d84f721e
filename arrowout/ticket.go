package arrowout

import (
	"cmp"
	"encoding/json"
	"fmt"

	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/request"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// parsedTicket is a ticket that has been checked against the run.
type parsedTicket struct {
	api.Ticket
	columns []batch.Column
	hasRank bool // the ticket contained a rank
}

// rankIDOf returns the place of a ticket in the run.
func rankIDOf(t api.Ticket) state.RankID {
	return state.RankID{Rank: t.Rank, World: t.World, Job: cmp.Or(t.Job, planrecord.DefaultJob), Peer: t.Peer}
}

// encodeTicket returns the JSON of a ticket.
func encodeTicket(t api.Ticket) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return b
}

// parseTicket decodes a ticket, sets defaults and checks it against the run.
func parseTicket(b []byte, info loader.Info, who auth.Identity) (parsedTicket, error) {
	t := parsedTicket{Ticket: api.Ticket{Run: info.Run, World: 1}}
	var rank, world, peer, columns = uint64(0), uint64(1), uint64(0), []string(nil)
	taken := false
	err := request.DecodeObject(b, map[string]func(json.RawMessage) error{
		"run":         request.RunName(&t.Run),
		"run_id":      request.RunID(&t.RunID),
		"fingerprint": request.Text(&t.Fingerprint),
		"rank": func(raw json.RawMessage) error {
			t.hasRank = true
			return request.Number(&rank, 0, request.MaxWorld-1)(raw)
		},
		"world":   request.Number(&world, 1, request.MaxWorld),
		"step":    request.Number(&t.Step, 0, request.MaxNumber),
		"steps":   request.Number(&t.Steps, 0, request.MaxNumber),
		"job":     request.JobName(&t.Job), // the job of the job's commits
		"session": request.SessionID(&t.Session),
		"peer":    request.Number(&peer, 0, request.MaxWorld-1),
		"taken": func(raw json.RawMessage) error {
			taken = true
			return request.Number(&t.Taken, 0, request.MaxNumber)(raw)
		},
		"read": request.Number(&t.Read, 0, request.MaxNumber),
		"columns": func(raw json.RawMessage) error {
			if err := request.Strings(&columns)(raw); err != nil {
				return err
			}
			if len(columns) == 0 {
				return fmt.Errorf("want at least one column; omit the key for %v", batch.DefaultColumns)
			}
			return nil
		},
	})
	if err != nil {
		return parsedTicket{}, refusal.InvalidTicket("%w", err)
	}
	t.Rank, t.World, t.Peer = int(rank), int(world), int(peer)
	if t.Session != "" && !taken {
		t.Taken = t.Step
	}
	if err := request.CheckRank(t.Rank, t.World); err != nil {
		return parsedTicket{}, err
	}
	if columns == nil {
		columns = batch.DefaultColumns
	}
	t.Columns = columns
	if t.columns, err = batch.ParseColumns(columns, info.Config); err != nil {
		return parsedTicket{}, err
	}
	if err := request.CheckRun(t.Run, t.RunID, info); err != nil {
		return parsedTicket{}, err
	}
	if t.Job == "" {
		t.Job = who.Job("")
	} else if !who.MayCommitFor(t.Job) {
		return parsedTicket{}, refusal.Forbidden(who, fmt.Sprintf("job %s belongs to another identity",
			refusal.Excerpt([]byte(t.Job))))
	}
	if t.Fingerprint != "" && t.Fingerprint != info.Fingerprint {
		return parsedTicket{}, &fault.Error{Reason: fault.PlanMismatch,
			Message: fmt.Sprintf("the ticket requires the plan %s, run %q has the plan %s", refusal.Shorten(t.Fingerprint, 80),
				info.Run, info.Fingerprint),
			Advice: "resume with the run of the checkpoint, or start without a fingerprint",
			Facts:  map[string]string{"run": info.Run, "want": refusal.Shorten(t.Fingerprint, 80), "have": info.Fingerprint}}
	}
	return t, follower.CheckWorldSize(info.Schedule, t.Step, t.World)
}
