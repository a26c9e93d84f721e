package loader

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
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// word is what a daemon says to the others of its run.
type word struct {
	Daemon string        `json:"daemon"`
	Flight string        `json:"flight,omitempty"` // where readers find it
	Demand *state.Demand `json:"demand,omitempty"`
	Left   bool          `json:"left,omitempty"` // it stops
	// Roll is a page of the ranks that it serves, in a word of its own.
	Roll *census.Roll `json:"roll,omitempty"`
	// Sources is a page of the report of a leader, in a word of its own ahead of the report.
	Sources *sourcePage   `json:"sources,omitempty"`
	Lead    *state.Report `json:"lead,omitempty"`   // when it leads
	At      uint64        `json:"at,omitempty"`     // likewise: last record of the plan
	Oldest  uint64        `json:"oldest,omitempty"` // likewise: steps before it cannot be read
}

// Bounds of what others say. Whoever reaches the NATS servers may say anything, in any daemon's name.
const (
	maxDaemons  = 4096
	maxJobs     = 1024
	maxWordName = 255
)

const (
	// maxWordBytes bounds an encoded word, as far as readers and sources make it long.
	maxWordBytes = 64 << 10
	// wordMargin is more than a word has around a page of a roll.
	wordMargin = 1 << 10
	// wordBytesPerSecond bounds how many bytes of words a daemon sends.
	wordBytesPerSecond = 1 << 20
)

// encode returns the encoded word. Where it would be longer than maxWordBytes it does not name all jobs.
func (w word) encode(keepers plan.Keepers) ([]byte, error) {
	b, err := json.Marshal(w)
	if err != nil || len(b) <= maxWordBytes || w.Demand == nil {
		return b, err
	}
	without := *w.Demand
	without.Jobs = nil
	x := w
	x.Demand = &without
	if b, err = json.Marshal(x); err != nil {
		return nil, err
	}
	short := w.Demand.Shortened(maxWordBytes-len(b)-len(`"jobs":{},`), keepers)
	x.Demand = &short
	return json.Marshal(x)
}

// decodeWord reads a word; it refuses one that no daemon says.
func decodeWord(b []byte) (w word, err error) {
	if err := json.Unmarshal(b, &w); err != nil {
		return w, err
	}
	if w.Daemon == "" {
		return w, errors.New("a word of nobody")
	}
	if err := (plan.Term{Daemon: w.Daemon}).Validate(); err != nil {
		return w, err
	}
	if len(w.Flight) > maxWordName || strings.ContainsFunc(w.Flight, func(r rune) bool { return r <= ' ' || r > '~' }) {
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
func (o *office) furthest() uint64 {
	h, _ := o.plan.Head()
	planned := o.plan.Planned()
	if h.Repair != nil {
		planned = max(planned, h.Repair.Steps)
	}
	return planned + 2*uint64(o.options.Ahead) + 2
}

// verify takes in from which step on steps can be read, as far as more than the leader's word says so: every keeper has committed those before it,
// or their documents are gone from the stream.
func (o *office) verify(ctx context.Context) error {
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
	all, err := o.streams.All(ctx, h)
	if err != nil {
		return nil // the next word claims it again
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

// speak tells the other daemons what the readers of this one want, and how far the plan is if this one leads: when it changes, and now
// and then. The word that something was appended is a hint: who has missed it looks by itself.
func (o *office) speak(ctx context.Context) error {
	defer o.say(word{Left: true})
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for round := uint64(1); ; round++ {
		changed := o.plan.Now().Changed
		if o.present() == nil {
			changed = nil // what this process knows of the plan it has from the others
		}
		bytes := o.sayReport(o.word(), round)
		for _, page := range o.ranks.Roll(maxWordBytes - wordMargin) {
			bytes += o.say(word{Roll: &page})
		}
		if err := waiting.Pause(ctx, max(sayPause, time.Duration(bytes)*time.Second/wordBytesPerSecond)); err != nil { // nothing is said more often than this
			return err
		}
		select {
		case <-changed:
		case <-o.news:
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

// sayReport says a word, after the pages of its report where that has some. It returns how many bytes all have.
func (o *office) sayReport(w word, round uint64) (bytes int) {
	if w.Lead != nil {
		lead, pages := splitReport(*w.Lead, round)
		for _, page := range pages {
			bytes += o.say(word{Sources: &page})
		}
		w.Lead = &lead
	}
	return bytes + o.say(w)
}

func (o *office) word() word {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.own
	w := word{Demand: &own}
	if o.leads {
		r := o.leader.Report()
		r.Connection = o.connection.Load()
		w.Lead, w.At, w.Oldest = &r, o.plan.Position(), o.plan.Now().Oldest
	}
	return w
}

// say returns how many bytes the word has.
func (o *office) say(w word) int {
	w.Daemon, w.Flight = o.edges.Daemon, o.flight
	b, err := w.encode(o.plan.Now().Keepers)
	if err == nil {
		err = o.edges.Bus.Publish(b)
	}
	if err != nil {
		o.log.Debug("the other daemons of the run do not hear this one", "error", err)
	}
	return len(b)
}

// hear takes in what another daemon says.
func (o *office) hear(b []byte) {
	w, err := decodeWord(b)
	if err != nil || w.Daemon == o.edges.Daemon {
		return
	}
	if w.Roll != nil || w.Left {
		o.ranks.Merge(w.Daemon, w.Roll)
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
		o.rumour = rumour{w.Daemon, time.Now()}
		if w.At > o.plan.Position() {
			waiting.Signal(o.hint)
		}
	} else if w.Lead != nil && !o.leads {
		o.told, o.heard, o.any, o.times = o.pages.join(*w.Lead, o.told), time.Now(), true, o.times+1
		o.told.Flight = w.Flight
		o.claimed = max(o.claimed, w.Oldest)
		if !w.Lead.Replays {
			o.plan.Confirm(w.At)
		}
		if w.At > o.plan.Position() {
			waiting.Signal(o.hint)
		}
	}
}

// question asks the leader to record an entry, or for a checkpoint.
type question struct {
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

// AskLength asks the leader of a run, over the bus of its daemons, how many steps the run will have; nil where that is not known.
func AskLength(ctx context.Context, b backend.Bus) (*state.Length, error) {
	q, err := json.Marshal(question{Length: true})
	if err != nil {
		return nil, err
	}
	answer, err := b.Request(ctx, q)
	if err != nil {
		return nil, err
	}
	var a reply
	err = json.Unmarshal(answer, &a)
	return a.Length, err
}

// reply answers a question.
type reply struct {
	At     uint64        `json:"at"`
	Mix    *MixResult    `json:"mix,omitempty"`
	Nobody bool          `json:"nobody,omitempty"` // leads here
	Error  *fault.Error  `json:"error,omitempty"`
	Length *state.Length `json:"length,omitempty"`
}

// answer answers the question of another daemon.
func (o *office) answer(ctx context.Context, b []byte) []byte {
	ctx, cancel := context.WithTimeout(ctx, o.options.Stall)
	defer cancel()
	var out reply
	var q question
	err := json.Unmarshal(b, &q)
	if err == nil && q.Length {
		out.Length = o.length()
	} else if err == nil {
		var a answer
		a, err = o.record(ctx, q)
		out.At, out.Mix = a.at, a.mix
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

// ask has the leader, wherever it is, answer a question. ErrNoLeader asks to put it again.
func (o *office) ask(ctx context.Context, q question) (answer, error) {
	if o.present() != nil || o.edges.Elector == nil {
		return o.record(ctx, q)
	}
	b, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	attempt, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	b, err = o.edges.Bus.Request(attempt, b)
	switch {
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case attempt.Err() != nil: // the leader may be gone
		return answer{}, fault.ErrNoLeader
	case err != nil:
		return answer{}, err
	}
	var a reply
	switch err := json.Unmarshal(b, &a); {
	case err != nil, a.Nobody: // no leader's answer is anything else
		return answer{}, fault.ErrNoLeader
	case a.Error != nil:
		return answer{}, a.Error
	}
	return answer{at: a.At, mix: a.Mix}, nil
}

// record has the leader of this process answer a question.
func (o *office) record(ctx context.Context, q question) (answer, error) {
	l := o.present()
	if l == nil {
		return answer{}, fault.ErrNoLeader
	}
	if q.Measure {
		return answer{}, l.measure(ctx)
	}
	e, err := q.entry()
	if err != nil {
		return answer{}, err
	}
	switch e := e.(type) {
	case plan.Mix:
		if e.Decided == nil {
			break
		}
		if x, found, err := changeDecided(ctx, l.edges.Plan, e); found || err != nil {
			return answer{mix: &x}, err
		}
	case plan.Drain:
		if !q.Again {
			break
		}
		if at, found, err := l.drained(ctx, q); found || err != nil {
			return answer{at: at}, err
		}
	}
	return l.ask(ctx, request{entry: e, dryRun: q.DryRun})
}

// entry is what is asked for: a control without its place, the end of all sources, a change of keepers, or nil for a checkpoint.
func (q question) entry() (plan.Entry, error) {
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

// drained looks for a drain that was asked for before: it must not be recorded twice.
func (l *leader) drained(ctx context.Context, q question) (at uint64, found bool, err error) {
	err = l.edges.Plan.Scan(ctx, q.After+1, func(position uint64, b []byte) error {
		e, err := plan.DecodeRecord(b)
		if err != nil {
			return planview.Damaged(position, err)
		}
		if d, drain := e.(plan.Drain); drain && d.At >= q.Least {
			at, found = d.At, true
		}
		return nil
	})
	return at, found, err
}

// ask hands a request to the loop and waits for the answer.
func (l *leader) ask(ctx context.Context, q request) (answer, error) {
	reply := make(chan answer, 1)
	q.reply = reply
	send := l.requests
	for {
		select {
		case send <- q:
			send = nil
		case a := <-reply:
			return a, a.err
		case <-l.done:
			return answer{}, fault.ErrNoLeader
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}
}
