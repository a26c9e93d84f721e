package arrowout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/refusal"
	"loaderd/internal/access"
	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// maxWorld bounds the world size of a ticket: a step has at most that many rows.
const maxWorld = 1 << 20

// request is a ticket that has been checked against the run.
type request struct {
	api.Ticket
	columns   []batch.Column
	namesRank bool // the ticket named its rank itself
}

// place returns the place of a ticket in the run.
func place(t api.Ticket) state.Place {
	return state.Place{Rank: t.Rank, World: t.World, Job: cmp.Or(t.Job, plan.DefaultKeeper), Peer: t.Peer}
}

// encodeTicket returns the JSON of a ticket.
func encodeTicket(t api.Ticket) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return b
}

// parseTicket reads a ticket's bytes, fills defaults in and checks it against the run.
func parseTicket(b []byte, info loader.Info, who access.Identity) (request, error) {
	t := request{Ticket: api.Ticket{Run: info.Run, World: 1}}
	var rank, world, peer, columns = uint64(0), uint64(1), uint64(0), []string(nil)
	taken := false
	err := decodeObject(b, map[string]func(json.RawMessage) error{
		"run":         runName(&t.Run),
		"run_id":      runID(&t.RunID),
		"fingerprint": text(&t.Fingerprint),
		"rank":        func(raw json.RawMessage) error { t.namesRank = true; return number(&rank, 0, maxWorld-1)(raw) },
		"world":       number(&world, 1, maxWorld),
		"step":        number(&t.Step, 0, maxNumber),
		"steps":       number(&t.Steps, 0, maxNumber),
		"job":         keeperName(&t.Job), // by which the job commits
		"session":     sessionID(&t.Session),
		"peer":        number(&peer, 0, maxWorld-1),
		"taken":       func(raw json.RawMessage) error { taken = true; return number(&t.Taken, 0, maxNumber)(raw) },
		"read":        number(&t.Read, 0, maxNumber),
		"columns": func(raw json.RawMessage) error {
			if err := names(&columns)(raw); err != nil {
				return err
			}
			if len(columns) == 0 {
				return fmt.Errorf("want at least one column; leave the key out for %v", batch.DefaultColumns)
			}
			return nil
		},
	})
	if err != nil {
		return request{}, refusal.BadTicket("%w", err)
	}
	t.Rank, t.World, t.Peer = int(rank), int(world), int(peer)
	if t.Session != "" && !taken {
		t.Taken = t.Step
	}
	if t.Rank >= t.World {
		return request{}, refusal.BadTicket("rank %d of world %d: want a rank of 0 to %d", t.Rank, t.World, t.World-1)
	}
	if columns == nil {
		columns = batch.DefaultColumns
	}
	t.Columns = columns
	if t.columns, err = batch.Parse(columns, info.Config); err != nil {
		return request{}, err
	}
	if err := checkRun(t.Run, t.RunID, info); err != nil {
		return request{}, err
	}
	if t.Job == "" {
		t.Job = who.Keeper("")
	} else if !who.Keeps(t.Job) {
		return request{}, refusal.Forbidden(who, fmt.Sprintf("job %s is not its own", refusal.Excerpt([]byte(t.Job))))
	}
	if t.Fingerprint != "" && t.Fingerprint != info.Fingerprint {
		return request{}, &fault.Error{Reason: fault.PlanMismatch,
			Message: fmt.Sprintf("the ticket wants the plan %s, run %q has the plan %s", cut(t.Fingerprint, 80), info.Run, info.Fingerprint),
			Do:      "resume against the run that the checkpoint was taken from, or start without a fingerprint",
			Facts:   map[string]string{"run": info.Run, "want": cut(t.Fingerprint, 80), "have": info.Fingerprint}}
	}
	return t, follower.CheckWorld(info.Config, t.World)
}

// checkRun refuses a request for another run than the one that is served, by its name or, where it has one, its id.
func checkRun(name, id string, info loader.Info) error {
	if name == info.Run || slices.Contains(info.Was, name) {
		return checkRunID(id, info)
	}
	return &fault.Error{Reason: fault.RunMismatch,
		Message: fmt.Sprintf("this daemon serves run %q, not %s", info.Run, refusal.Excerpt([]byte(name))),
		Do:      "ask for that run, leave run out, or connect to the daemon of the other run",
		Facts:   map[string]string{"want": cut(name, 80), "have": info.Run}}
}

func checkRunID(id string, info loader.Info) error {
	switch {
	case id == "" || id == info.ID:
		return nil
	case !info.Begun: // or this daemon has not read the plan yet
		return &fault.Error{Reason: fault.NotLeading, Message: fmt.Sprintf("this daemon has not seen the plan of run %q yet", info.Run), Do: "ask again"}
	}
	return &fault.Error{Reason: fault.RunReplaced,
		Message: fmt.Sprintf("run %q was deleted and begun again: it has the id %s, the request is for %s", info.Run, info.ID, id),
		Do:      "its steps need not be those of before: resume from a checkpoint of this run, begin at step 0 without one, or restore the former run's plan from its backup",
		Facts:   map[string]string{"run": info.Run, "want": id, "have": info.ID}}
}
