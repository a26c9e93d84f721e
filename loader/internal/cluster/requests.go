package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/leader"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// requestTimeout is the time after which an unanswered request is sent again, to the daemon that leads by then.
const requestTimeout = 5 * time.Second

// Request asks the leader to record an entry or to take a checkpoint.
type Request struct {
	Record []byte `json:"record,omitempty"` // encoded entry; a control without its place
	// Again means that the request was sent before and its response was lost. A drain of at least the arrivals up to
	// Least that is recorded after record After of the plan is then the response.
	Again bool   `json:"again,omitempty"`
	After uint64 `json:"after,omitempty"`
	Least uint64 `json:"least,omitempty"`
	// DryRun requests the effect of the mixture change in Record without recording it.
	DryRun bool `json:"dry_run,omitempty"`
	// Measure requests a measurement of the run; nothing is recorded.
	Measure bool `json:"measure,omitempty"`
	// Length requests the estimated length of the run; nothing is recorded.
	Length bool `json:"length,omitempty"`
}

// response is the answer to a Request.
type response struct {
	At     uint64           `json:"at"`
	Mix    *state.MixResult `json:"mix,omitempty"`
	Nobody bool             `json:"nobody,omitempty"` // no leader in this process
	Error  *fault.Error     `json:"error,omitempty"`
	Length *state.Length    `json:"length,omitempty"`
}

// requester sends requests to the leader of the run, in any process.
type requester struct {
	setup      leader.Setup
	leadership *leadership
	length     func() *state.Length // of the run
}

// answer answers the request of another daemon.
func (r *requester) answer(ctx context.Context, b []byte) []byte {
	ctx, cancel := context.WithTimeout(ctx, r.setup.Options.Stall)
	defer cancel()
	var out response
	var q Request
	err := json.Unmarshal(b, &q)
	if err == nil && q.Length {
		out.Length = r.length()
	} else if err == nil {
		var a leader.Result
		a, err = r.record(ctx, q)
		out.At, out.Mix = a.At, a.Mix
	}
	switch {
	case errors.Is(err, fault.ErrNoLeader) || ctx.Err() != nil:
		out.Nobody = true
	case err != nil && !errors.As(err, &out.Error):
		out.Error = &fault.Error{Reason: fault.RunFailed, Message: err.Error()}
	}
	b, err = json.Marshal(out)
	if err != nil {
		return nil
	}
	return b
}

// ask sends a request to the leader. fault.ErrNoLeader means that the caller should repeat the request.
func (r *requester) ask(ctx context.Context, q Request) (leader.Result, error) {
	if r.leadership.present() != nil || r.setup.Backends.Elector == nil {
		return r.record(ctx, q)
	}
	b, err := json.Marshal(q)
	if err != nil {
		return leader.Result{}, err
	}
	attempt, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	b, err = r.setup.Backends.Bus.Request(attempt, b)
	switch {
	case ctx.Err() != nil:
		return leader.Result{}, ctx.Err()
	case attempt.Err() != nil: // the leader may have stopped
		return leader.Result{}, fault.ErrNoLeader
	case err != nil:
		return leader.Result{}, err
	}
	var a response
	switch err := json.Unmarshal(b, &a); {
	case err != nil, a.Nobody: // every answer of a leader decodes
		return leader.Result{}, fault.ErrNoLeader
	case a.Error != nil:
		return leader.Result{}, a.Error
	}
	return leader.Result{At: a.At, Mix: a.Mix}, nil
}

// record passes a request to the leader of this process.
func (r *requester) record(ctx context.Context, q Request) (leader.Result, error) {
	l := r.leadership.present()
	if l == nil {
		return leader.Result{}, fault.ErrNoLeader
	}
	if q.Measure {
		return leader.Result{}, l.Measure(ctx)
	}
	e, err := q.entry()
	if err != nil {
		return leader.Result{}, err
	}
	switch e := e.(type) {
	case planrecord.Mix:
		if e.Decided == nil {
			break
		}
		if x, found, err := leader.ChangeDecided(ctx, r.setup.Backends.Plan, e); found || err != nil {
			return leader.Result{Mix: &x}, err
		}
	case planrecord.Drain:
		if !q.Again {
			break
		}
		if at, found, err := l.Drained(ctx, q.After, q.Least); found || err != nil {
			return leader.Result{At: at}, err
		}
	}
	return l.Ask(ctx, leader.Command{Entry: e, DryRun: q.DryRun})
}

// entry returns the requested entry: a control without its place, the end of all sources, a change of keepers, or nil
// for a checkpoint.
func (q Request) entry() (planrecord.Entry, error) {
	if q.Record == nil {
		return nil, nil
	}
	e, err := planrecord.Decode(q.Record)
	if err != nil {
		return nil, &fault.Error{Reason: fault.BadTicket, Message: err.Error()}
	}
	switch e.(type) {
	case planrecord.Control, planrecord.Seal, planrecord.Commit, planrecord.Leave:
		return e, nil
	}
	return nil, &fault.Error{Reason: fault.BadTicket, Message: fmt.Sprintf("nobody can ask for a record of kind %d",
		e.Kind())}
}

// AskLength requests the number of steps of a run from its leader, over the bus of its daemons; nil while it is
// unknown.
func AskLength(ctx context.Context, b backend.Bus) (*state.Length, error) {
	q, err := json.Marshal(Request{Length: true})
	if err != nil {
		return nil, err
	}
	answer, err := b.Request(ctx, q)
	if err != nil {
		return nil, err
	}
	var a response
	err = json.Unmarshal(answer, &a)
	return a.Length, err
}
