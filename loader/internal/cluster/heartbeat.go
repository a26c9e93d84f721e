package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/census"
	"loaderd/loader/fault"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// heartbeat is the periodic message of a daemon to the others of its run.
type heartbeat struct {
	Daemon string        `json:"daemon"`
	Flight string        `json:"flight,omitempty"` // where readers find it
	Demand *state.Demand `json:"demand,omitempty"`
	Left   bool          `json:"left,omitempty"` // it stops
	// Roll is a page of the ranks that it serves, in a heartbeat of its own.
	Roll *census.Roll `json:"roll,omitempty"`
	// Sources is a page of the report of a leader, in a heartbeat of its own before the report.
	Sources *sourcePage   `json:"sources,omitempty"`
	Lead    *state.Report `json:"lead,omitempty"`   // when it leads
	At      uint64        `json:"at,omitempty"`     // likewise: last record of the plan
	Oldest  uint64        `json:"oldest,omitempty"` // likewise: steps before it cannot be read
}

// Bounds of what others say. Whoever reaches the NATS servers may say anything, in any daemon's name.
const (
	maxDaemons      = 4096
	maxJobs         = 1024
	maxAddressBytes = 255
)

const (
	// maxHeartbeatBytes bounds an encoded heartbeat, as far as readers and sources make it long.
	maxHeartbeatBytes = 64 << 10
	// heartbeatMargin is more than a heartbeat has around a page of a roll.
	heartbeatMargin = 1 << 10
	// heartbeatBytesPerSecond bounds the bytes of heartbeats that a daemon sends.
	heartbeatBytesPerSecond = 1 << 20
)

// encode returns the encoded heartbeat. Where it would be longer than maxHeartbeatBytes it does not name all jobs.
func (w heartbeat) encode(keepers plan.Keepers) ([]byte, error) {
	b, err := json.Marshal(w)
	if err != nil || len(b) <= maxHeartbeatBytes || w.Demand == nil {
		return b, err
	}
	without := *w.Demand
	without.Jobs = nil
	x := w
	x.Demand = &without
	if b, err = json.Marshal(x); err != nil {
		return nil, err
	}
	short := w.Demand.Shortened(maxHeartbeatBytes-len(b)-len(`"jobs":{},`), keepers)
	x.Demand = &short
	return json.Marshal(x)
}

// decodeHeartbeat reads a heartbeat; it refuses one that no daemon sends.
func decodeHeartbeat(b []byte) (w heartbeat, err error) {
	if err := json.Unmarshal(b, &w); err != nil {
		return w, err
	}
	if w.Daemon == "" {
		return w, errors.New("a word of nobody")
	}
	if err := (plan.Term{Daemon: w.Daemon}).Validate(); err != nil {
		return w, err
	}
	if len(w.Flight) > maxAddressBytes || strings.ContainsFunc(w.Flight, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return w, fmt.Errorf("%q is no address", w.Flight)
	}
	if w.Roll != nil {
		if err := w.Roll.Check(plan.ValidKeeper); err != nil {
			return w, err
		}
	}
	if w.Sources != nil {
		if err := w.Sources.check(len(b)); err != nil {
			return w, err
		}
	}
	if w.Lead != nil && (w.Lead.Pages < 0 || w.Lead.Pages > maxReportPages) {
		return w, fmt.Errorf("a report of %d pages", w.Lead.Pages)
	}
	if w.Demand == nil {
		return w, nil
	}
	if len(w.Demand.Jobs) > maxJobs {
		return w, fmt.Errorf("%d jobs", len(w.Demand.Jobs))
	}
	for job := range w.Demand.Jobs {
		if err := plan.ValidKeeper(job); err != nil && job != state.UnnamedJob {
			return w, err
		}
	}
	return w, nil
}

// furthest is the furthest step that a reader of any daemon can have asked for by now: none is let in that asks for much more than is planned.
func (o *Coordinator) furthest() uint64 {
	h, _ := o.plan.Head()
	planned := o.plan.Planned()
	if h.Repair != nil {
		planned = max(planned, h.Repair.Steps)
	}
	return planned + 2*uint64(o.Options.Ahead) + 2
}

// verify takes in from which step on steps can be read, as far as more than the leader's heartbeat shows it: every keeper has committed those before it,
// or their documents are gone from the stream.
func (o *Coordinator) verify(ctx context.Context) error {
	o.mu.Lock()
	claimed := o.claimed
	o.claimed = 0
	o.mu.Unlock()
	now := o.plan.Now()
	if claimed <= now.Oldest {
		return nil
	}
	committed := now.Keepers.Committed()
	o.plan.Released(min(claimed, committed))
	if claimed <= committed {
		return nil
	}
	h, _ := o.plan.Head()
	all, err := o.Streams.All(ctx, h)
	if err != nil {
		return nil // the next heartbeat claims it again
	}
	there := make(planview.Needs, len(all))
	for i, x := range all {
		state, err := x.Documents.State(ctx)
		if err != nil {
			return nil
		}
		there[i] = state.First
	}
	return o.plan.Release(ctx, there)
}

// publishHeartbeats sends the other daemons what the readers of this one want and, if this one leads, how far the plan is: when that changes,
// and every heartbeatInterval. A daemon that misses the heartbeat of an append polls the plan.
func (o *Coordinator) publishHeartbeats(ctx context.Context) error {
	defer o.publish(heartbeat{Left: true})
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for round := uint64(1); ; round++ {
		changed := o.plan.Now().Changed
		if o.Present() == nil {
			changed = nil // what this process knows of the plan it has from the others
		}
		bytes := o.publishReport(o.heartbeat(), round)
		for _, page := range o.Ranks.Roll(maxHeartbeatBytes - heartbeatMargin) {
			bytes += o.publish(heartbeat{Roll: &page})
		}
		if err := waiting.Pause(ctx, max(minHeartbeatInterval, time.Duration(bytes)*time.Second/heartbeatBytesPerSecond)); err != nil { // no heartbeat is sent more often
			return err
		}
		select {
		case <-changed:
		case <-o.stateChanged:
		case <-tick.C:
			o.mu.Lock()
			if o.leader != nil { // some daemons may have fallen silent
				o.leader.Want(o.demandOfAll())
			}
			o.mu.Unlock()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// publishReport sends a heartbeat, after the pages of its report where that has some. It returns the bytes of all.
func (o *Coordinator) publishReport(w heartbeat, round uint64) (bytes int) {
	if w.Lead != nil {
		lead, pages := splitReport(*w.Lead, round)
		for _, page := range pages {
			bytes += o.publish(heartbeat{Sources: &page})
		}
		w.Lead = &lead
	}
	return bytes + o.publish(w)
}

func (o *Coordinator) heartbeat() heartbeat {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.own
	w := heartbeat{Demand: &own}
	if o.leads {
		r := o.leader.Report()
		r.Connection = o.connection.Load()
		w.Lead, w.At, w.Oldest = &r, o.plan.Position(), o.plan.Now().Oldest
	}
	return w
}

// publish sends a heartbeat and returns its bytes.
func (o *Coordinator) publish(w heartbeat) int {
	w.Daemon, w.Flight = o.Backends.Daemon, o.Flight
	b, err := w.encode(o.plan.Now().Keepers)
	if err == nil {
		err = o.Backends.Bus.Publish(b)
	}
	if err != nil {
		o.log.Debug("the other daemons of the run do not hear this one", "error", err)
	}
	return len(b)
}

// onHeartbeat takes in the heartbeat of another daemon.
func (o *Coordinator) onHeartbeat(b []byte) {
	w, err := decodeHeartbeat(b)
	if err != nil || w.Daemon == o.Backends.Daemon {
		return
	}
	if w.Roll != nil || w.Left {
		o.Ranks.Merge(w.Daemon, w.Roll)
	}
	if w.Sources != nil && o.plan.LedBy(w.Daemon) {
		o.mu.Lock()
		o.pages.add(w.Sources)
		o.mu.Unlock()
	}
	if w.Roll != nil || w.Sources != nil {
		return
	}
	wants := state.NewDemand()
	if w.Demand != nil {
		wants = w.Demand.Within(o.furthest())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.Left {
		o.depart(w.Daemon)
	} else if o.daemons[w.Daemon] != nil || len(o.daemons) < maxDaemons {
		o.daemons[w.Daemon] = &daemon{w.Flight, wants, time.Now()}
	}
	if o.leader != nil {
		o.leader.Want(o.demandOfAll())
	}
	if w.Lead != nil && !o.leads && !o.plan.LedBy(w.Daemon) {
		o.unconfirmed = unconfirmedLeader{w.Daemon, time.Now()}
		if w.At > o.plan.Position() {
			waiting.Signal(o.planGrew)
		}
	} else if w.Lead != nil && !o.leads {
		o.leaderReport, o.heard, o.any, o.times = o.pages.join(*w.Lead, o.leaderReport), time.Now(), true, o.times+1
		o.leaderReport.Flight = w.Flight
		o.claimed = max(o.claimed, w.Oldest)
		if !w.Lead.Replays {
			o.plan.Confirm(w.At)
		}
		if w.At > o.plan.Position() {
			waiting.Signal(o.planGrew)
		}
	}
}

// Request asks the leader to record an entry, or for a checkpoint.
type Request struct {
	Record []byte `json:"record,omitempty"` // of the entry; a control's without its place
	// Again says that the question was put before and the answer is missing: a drain of the arrivals up to Least that stands behind record
	// After of the plan is the answer.
	Again bool   `json:"again,omitempty"`
	After uint64 `json:"after,omitempty"`
	Least uint64 `json:"least,omitempty"`
	// DryRun asks for no record, but what the change of the mixture in Record would be.
	DryRun bool `json:"dry_run,omitempty"`
	// Measure asks for no record, but that the run is measured.
	Measure bool `json:"measure,omitempty"`
	// Length asks for no record either, but how long the run will be.
	Length bool `json:"length,omitempty"`
}

// response is the answer to a Request.
type response struct {
	At     uint64           `json:"at"`
	Mix    *state.MixResult `json:"mix,omitempty"`
	Nobody bool             `json:"nobody,omitempty"` // leads here
	Error  *fault.Error     `json:"error,omitempty"`
	Length *state.Length    `json:"length,omitempty"`
}

// answer answers the question of another daemon.
func (o *Coordinator) answer(ctx context.Context, b []byte) []byte {
	ctx, cancel := context.WithTimeout(ctx, o.Options.Stall)
	defer cancel()
	var out response
	var q Request
	err := json.Unmarshal(b, &q)
	if err == nil && q.Length {
		out.Length = o.Length()
	} else if err == nil {
		var a leader.Result
		a, err = o.record(ctx, q)
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

// Ask has the leader, wherever it is, answer a question. ErrNoLeader asks to put it again.
func (o *Coordinator) Ask(ctx context.Context, q Request) (leader.Result, error) {
	if o.Present() != nil || o.Backends.Elector == nil {
		return o.record(ctx, q)
	}
	b, err := json.Marshal(q)
	if err != nil {
		return leader.Result{}, err
	}
	attempt, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	b, err = o.Backends.Bus.Request(attempt, b)
	switch {
	case ctx.Err() != nil:
		return leader.Result{}, ctx.Err()
	case attempt.Err() != nil: // the leader may be gone
		return leader.Result{}, fault.ErrNoLeader
	case err != nil:
		return leader.Result{}, err
	}
	var a response
	switch err := json.Unmarshal(b, &a); {
	case err != nil, a.Nobody: // no leader's answer is anything else
		return leader.Result{}, fault.ErrNoLeader
	case a.Error != nil:
		return leader.Result{}, a.Error
	}
	return leader.Result{At: a.At, Mix: a.Mix}, nil
}

// record has the leader of this process answer a question.
func (o *Coordinator) record(ctx context.Context, q Request) (leader.Result, error) {
	l := o.Present()
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
	case plan.Mix:
		if e.Decided == nil {
			break
		}
		if x, found, err := leader.ChangeDecided(ctx, o.Backends.Plan, e); found || err != nil {
			return leader.Result{Mix: &x}, err
		}
	case plan.Drain:
		if !q.Again {
			break
		}
		if at, found, err := l.Drained(ctx, q.After, q.Least); found || err != nil {
			return leader.Result{At: at}, err
		}
	}
	return l.Ask(ctx, leader.Command{Entry: e, DryRun: q.DryRun})
}

// entry is what is asked for: a control without its place, the end of all sources, a change of keepers, or nil for a checkpoint.
func (q Request) entry() (plan.Entry, error) {
	if q.Record == nil {
		return nil, nil
	}
	e, err := plan.DecodeRecord(q.Record)
	if err != nil {
		return nil, &fault.Error{Reason: fault.BadTicket, Message: err.Error()}
	}
	switch e.(type) {
	case plan.Control, plan.Seal, plan.Commit, plan.Leave:
		return e, nil
	}
	return nil, &fault.Error{Reason: fault.BadTicket, Message: fmt.Sprintf("nobody can ask for a record of kind %d", e.Kind())}
}

// AskLength asks the leader of a run, over the bus of its daemons, how many steps the run will have; nil where that is not known.
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
