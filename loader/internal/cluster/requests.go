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
	// Retry means that the request was sent before and its response was lost. A flush of at least the arrivals up to
	// Least that is recorded after record After of the plan is then the response.
	Retry       bool   `json:"again,omitempty"`
	AfterRecord uint64 `json:"after,omitempty"`
	MinArrival  uint64 `json:"least,omitempty"`
	// DryRun requests the effect of the mixture change in Record without recording it.
	DryRun bool `json:"dry_run,omitempty"`
	// Measure requests a measurement of the run; nothing is recorded.
	Measure bool `json:"measure,omitempty"`
	// Resize requests another world size of a job.
	Resize *state.ResizeRequest `json:"resize,omitempty"`
	// Length requests the estimated length of the run; nothing is recorded.
	Length bool `json:"length,omitempty"`
}

// response is the answer to a Request.
type response struct {
	At       uint64              `json:"at"`
	Mix      *state.MixResult    `json:"mix,omitempty"`
	NoLeader bool                `json:"nobody,omitempty"` // no leader in this process
	Error    *fault.Error        `json:"error,omitempty"`
	Length   *state.Length       `json:"length,omitempty"`
	Resize   *state.ResizeResult `json:"resize,omitempty"`
}

// requester sends requests to the leader of the run, in any process.
type requester struct {
	setup      leader.Setup
	leadership *leadership
	length     func() *state.Length // of the run
	documents  *Documents
}

// handleRequest answers the request of another daemon.
func (r *requester) handleRequest(ctx context.Context, b []byte) []byte {
	if len(b) > 0 && b[0] == documentMessage {
		return r.documents.answer(ctx, b[1:])
	}
	ctx, cancel := context.WithTimeout(ctx, r.setup.Options.StallTimeout)
	defer cancel()
	var out response
	var q Request
	err := json.Unmarshal(b, &q)
	if err == nil && q.Length {
		out.Length = r.length()
	} else if err == nil {
		var a leader.Result
		a, err = r.executeRequest(ctx, q)
		out.At, out.Mix, out.Resize = a.At, a.Mix, a.Resize
	}
	switch {
	case errors.Is(err, fault.ErrNoLeader) || ctx.Err() != nil:
		out.NoLeader = true
	case err != nil && !errors.As(err, &out.Error):
		out.Error = &fault.Error{Reason: fault.RunFailed, Message: err.Error()}
	}
	b, err = json.Marshal(out)
	if err != nil {
		return nil
	}
	return b
}

// sendRequest sends a request to the leader. fault.ErrNoLeader means that the caller should repeat the request.
func (r *requester) sendRequest(ctx context.Context, q Request) (leader.Result, error) {
	if r.leadership.current() != nil || r.setup.Backends.Elector == nil {
		return r.executeRequest(ctx, q)
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
	case err != nil, a.NoLeader: // every answer of a leader decodes
		return leader.Result{}, fault.ErrNoLeader
	case a.Error != nil:
		return leader.Result{}, a.Error
	}
	return leader.Result{At: a.At, Mix: a.Mix, Resize: a.Resize}, nil
}

// executeRequest passes a request to the leader of this process.
func (r *requester) executeRequest(ctx context.Context, q Request) (leader.Result, error) {
	l := r.leadership.current()
	if l == nil {
		return leader.Result{}, fault.ErrNoLeader
	}
	if q.Measure {
		return leader.Result{}, l.Measure(ctx)
	}
	if q.Resize != nil {
		return l.Execute(ctx, leader.Command{Resize: q.Resize})
	}
	e, err := q.decodeEntry()
	if err != nil {
		return leader.Result{}, err
	}
	switch e := e.(type) {
	case planrecord.Mix:
		if e.DecidedStep == nil {
			break
		}
		if x, found, err := leader.FindDecidedChange(ctx, r.setup.Backends.Plan, e); found || err != nil {
			return leader.Result{Mix: &x}, err
		}
	case planrecord.Flush:
		if !q.Retry {
			break
		}
		if at, found, err := l.Flushed(ctx, q.AfterRecord, q.MinArrival); found || err != nil {
			return leader.Result{At: at}, err
		}
	}
	return l.Execute(ctx, leader.Command{Entry: e, DryRun: q.DryRun})
}

// decodeEntry returns the requested entry: a control without its place, the end of all sources, a change of committing
// jobs, or nil for a checkpoint.
func (q Request) decodeEntry() (planrecord.Entry, error) {
	if q.Record == nil {
		return nil, nil
	}
	e, err := planrecord.Decode(q.Record)
	if err != nil {
		return nil, &fault.Error{Reason: fault.InvalidTicket, Message: err.Error()}
	}
	switch e.(type) {
	case planrecord.Control, planrecord.Seal, planrecord.Commit, planrecord.Leave:
		return e, nil
	}
	return nil, &fault.Error{Reason: fault.InvalidTicket, Message: fmt.Sprintf("a record of kind %d cannot be requested",
		e.Kind())}
}

// RequestLength requests the number of steps of a run from its leader, over the bus of its daemons; nil while it is
// unknown.
func RequestLength(ctx context.Context, b backend.Bus) (*state.Length, error) {
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
