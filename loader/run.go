package loader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/internal/cluster"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// Info describes a run to readers.
type Info struct {
	Run string `json:"run"`
	// ID tells the run from others of its name: one that was deleted and begun again has another. Empty before it begins.
	ID          string             `json:"run_id"`
	Fingerprint string             `json:"fingerprint"`
	Config      runconfig.Config   `json:"config"`
	Planned     uint64             `json:"planned"`   // steps 0 ... Planned-1 can be read
	Ended       bool               `json:"ended"`     // no step follows
	Committed   uint64             `json:"committed"` // all keepers' own checkpoints cover all steps before this one
	Oldest      uint64             `json:"oldest"`    // steps before this one are released: their documents may be gone
	Keepers     planrecord.Keepers `json:"keepers"`
	// Sources are in the order of their numbers, those that were removed among them.
	Sources []plan.SourceInfo `json:"sources"`
	// Was are names that the run had before its plan was repaired: who holds one of them means this run.
	Was []string `json:"was,omitempty"`
	// Begun says that the run has a plan, as far as this process knows.
	Begun bool `json:"-"`
	// Daemons are the addresses of all live daemons of the run, as grpc://host:port or grpc+tls://host:port. Empty: the
	// one that answers is alone.
	Daemons []string `json:"daemons,omitempty"`
	// Leader is where readers find the daemon that plans the run, as this one has heard last; empty when that is not
	// known.
	Leader string `json:"leader,omitempty"`
	// Length is how many steps the run has or will have; nil while that is not known.
	Length *state.Length `json:"length,omitempty"`
	// Ahead is how many steps may be planned beyond what readers asked for.
	Ahead int `json:"ahead,omitempty"`
	// Columns are those that a ticket may ask for; the Flight server says.
	Columns []string `json:"columns,omitempty"`
}

// Run is one daemon's part in a run: a follower that serves readers, and a leader while it is this daemon's turn, with
// the plan and the follower's demand between them. Open it, call Serve once, read steps through Readers.
type Run struct {
	name        string
	config      runconfig.Config
	options     backend.Options
	clustered   bool // several daemons may serve the run
	plan        *planview.View
	streams     *planview.Streams
	coordinator *cluster.Coordinator
	follower    *follower.Follower
}

// Open reads the plan and restores the planner. It refuses a plan made with another configuration or algorithm. It
// changes nothing: a new run begins with Serve.
func Open(ctx context.Context, name string, c runconfig.Config, o backend.Options, e backend.Backends) (*Run, error) {
	if bad := c.Validate(); len(bad) > 0 {
		errs := make([]error, len(bad))
		for i, b := range bad {
			errs[i] = b
		}
		return nil, fmt.Errorf("open run %s: %w", name, errors.Join(errs...))
	}
	if err := (planrecord.Term{Daemon: e.Daemon}).Validate(); err != nil {
		return nil, fmt.Errorf("open run %s: %w", name, err)
	}
	c = c.Settled()
	log := e.Log.With("run", name)
	view := planview.New(e.Plan, c, o)
	streams := planview.NewStreams(e, view)
	f := follower.New(view, c, o, streams, log)
	f.Supply = e.Supply
	setup := leader.Setup{Name: name, Config: c, Options: o, Backends: e, Streams: streams, Log: log, View: view,
		Observer: f.Assembler}
	coordinator := cluster.New(setup, f.Ranks)
	f.Leader = coordinator
	if err := coordinator.Open(ctx); err != nil {
		return nil, fmt.Errorf("open run %s: %w", name, err)
	}
	return &Run{
		name: name, config: c, options: o, clustered: e.Elector != nil, plan: view, streams: streams,
		coordinator: coordinator, follower: f,
	}, nil
}

// Serve plans, or follows the plan of the daemon that does, until ctx is done or the run fails. It returns nil in the
// first case. After the end of the stream it stays to answer requests. Call it once.
func (r *Run) Serve(ctx context.Context) error {
	var telling sync.WaitGroup
	tell, stop := context.WithCancel(ctx)
	telling.Go(func() { r.follower.LogStalls(tell) })
	telling.Go(func() { r.follower.Prefetch.Run(tell) })
	telling.Go(func() { r.follower.DropSilent(tell) })
	err := r.coordinator.Serve(ctx)
	stop()
	telling.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	failed := err
	if failed == nil {
		failed = &fault.Error{Reason: fault.NotLeading, Message: "the daemon is shutting down",
			Do: "reconnect when it is back"}
	}
	r.plan.Fail(diagnosis.Failure(failed))
	return err
}

// ServesAt says where readers find this daemon, for those that come by way of another one. It is called before Serve.
func (r *Run) ServesAt(uri string) { r.coordinator.ServesAt(uri) }

// Info describes the run as of now.
func (r *Run) Info() Info {
	now := r.plan.Now() // first: a plan with steps has begun
	h, begun := r.plan.Head()
	daemons, leader := r.coordinator.Addresses()
	info := Info{Run: r.name, Fingerprint: h.Fingerprint, Config: r.config, Planned: now.Steps, Ended: now.Ended,
		Committed: now.Keepers.Committed(), Oldest: now.Oldest, Keepers: now.Keepers, Begun: begun, Daemons: daemons,
		Leader: leader, Length: r.Length(), Ahead: r.options.Ahead}
	if begun {
		info.ID = h.ID
	}
	if info.Sources = r.streams.Infos(); len(info.Sources) == 0 { // the run has not begun
		info.Sources = h.Infos()
	}
	if h.Repair != nil {
		info.Was = h.Repair.Was
	}
	return info
}

// Join registers a reader that will ask for steps from step on. It checks rank, world and step. Readers decide how far
// ahead the leader plans, never what it plans.
func (r *Run) Join(place state.Place, step uint64) (*follower.Reader, error) {
	return r.JoinAs(place, step, state.Client{})
}

// JoinAs is Join for a client that is described.
func (r *Run) JoinAs(place state.Place, step uint64, client state.Client) (*follower.Reader, error) {
	reader, err := r.follower.Join(r.name, place, step, client)
	var refused *fault.Error
	if !errors.As(err, &refused) || refused.Reason != fault.StepNotPlanned {
		return reader, err
	}
	elsewhere, heard := r.coordinator.Listen() // a reader that comes from another daemon may know more
	if !elsewhere {
		return reader, err
	}
	reader, err = r.follower.Join(r.name, place, step, client)
	if errors.As(err, &refused) && refused.Reason == fault.StepNotPlanned && !heard {
		return nil, follower.Unheard(step, r.plan.Planned())
	}
	return reader, err
}

// Step returns one step of the plan without waiting for it: io.EOF behind the end, a *Error for one that is not planned
// yet.
func (r *Run) Step(ctx context.Context, step uint64) (*plan.Step, error) {
	return r.plan.Step(ctx, step)
}

// Assemble returns rows [first, first+n) of a step with their documents.
func (r *Run) Assemble(ctx context.Context, s *plan.Step, first, n int) (*assembly.Batch, error) {
	return r.follower.Assemble(ctx, s, first, n)
}

// Consumed records a report of the client that reads at a place, from this daemon or another one.
func (r *Run) Consumed(place state.Place, c state.Consumption) state.Receipt {
	return r.follower.Consumed(place, c)
}

// Ranks returns the ranks of all daemons, as they were judged last.
func (r *Run) Ranks() census.View { return r.follower.Ranks.Last() }

// Cause says why a step is not there yet, as its reader would be told; nil when it is, or when the run has ended.
func (r *Run) Cause(step uint64) *fault.Error { return r.follower.Explain(step) }

// Verdict describes in a sentence how the run does, as of the last second.
func (r *Run) Verdict() diagnosis.Verdict { return r.follower.ShownVerdict() }

// Waits reports whether a rank waits for a step that is not planned, as of the last second.
func (r *Run) Waits() bool { return r.follower.RateSampler.Waits() }

// Leads reports whether this process plans the run, as far as it knows.
func (r *Run) Leads() bool { return r.coordinator.Leader() != nil }

// Led reports whether this process plans the run, or has heard of another one that does.
func (r *Run) Led() bool { return r.coordinator.Led() }

// Rates are how fast the run gets on.
func (r *Run) Rates() state.Rates { return r.follower.RateSampler.Rates() }

// Lookup returns the sequences of the messages that have a producer's id, or hold a document that has it, in order.
func (r *Run) Lookup(ctx context.Context, id string) ([]uint64, error) {
	return r.streams.Lookup(ctx, id)
}

// Find calls f with every row of the plan that holds a part of a document, in order.
func (r *Run) Find(ctx context.Context, document uint64,
	f func(s *plan.Step, row int, pieces []packonline.Piece) error) error {
	return maintenance.Find(ctx, r.plan.Log, document, f)
}

// Describe says where one document came from.
func (r *Run) Describe(ctx context.Context, sequence uint64) (document.Info, error) {
	return r.streams.Describe(ctx, sequence)
}

// Seal ends all sources for this run behind their present last documents: the pool drains there and every rank sees the
// same end. It returns the sequence of the last one of these documents. Idempotent.
func (r *Run) Seal(ctx context.Context) (uint64, error) { return r.SealBy(ctx, "") }

// SealBy is Seal for somebody who is known by name, which the plan's record then has.
func (r *Run) SealBy(ctx context.Context, who string) (uint64, error) {
	if err := validWho(who); err != nil {
		return 0, err
	}
	at, err := r.ask(ctx, planrecord.Seal{By: who})
	if l := r.coordinator.Leader(); err == nil && l != nil {
		l.Announced(ctx)
	}
	return at, err
}

// SealSource ends one source behind its present last document, whose sequence it returns. Idempotent. who asked for it
// may be empty.
func (r *Run) SealSource(ctx context.Context, name, who string) (uint64, error) {
	if err := validWho(who); err != nil {
		return 0, err
	}
	infos, err := r.sources(ctx)
	if err != nil {
		return 0, err
	}
	named := func() int { return slices.IndexFunc(infos, func(s plan.SourceInfo) bool { return s.Name == name }) }
	i := named()
	if i < 0 { // another daemon, which leads, may have added it a moment ago
		elsewhere, heard := r.coordinator.Listen()
		infos = r.streams.Infos()
		if i = named(); i < 0 && elsewhere && !heard {
			return 0, r.follower.Unanswered()
		}
	}
	if i < 0 {
		return 0, &fault.Error{Reason: fault.BadTicket, Message: fmt.Sprintf("the run has no source %q", name),
			Do: "name one of " + strings.Join(sourceNames(infos), ", ")}
	}
	return r.ask(ctx, planrecord.SealSource{Source: i, By: who})
}

// sources returns those of the run. It waits for the stall timeout that the run begins.
func (r *Run) sources(ctx context.Context) ([]plan.SourceInfo, error) {
	limit, cancel := context.WithTimeout(ctx, r.options.Stall)
	defer cancel()
	for {
		now := r.plan.Now()
		infos := r.streams.Infos()
		if now.Failed != nil || len(infos) > 0 {
			return infos, now.Failed
		}
		select {
		case <-now.Changed:
		case <-limit.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, r.follower.Unanswered()
		}
	}
}

func sourceNames(infos []plan.SourceInfo) (names []string) {
	for _, s := range infos {
		names = append(names, s.Name)
	}
	return names
}

// validWho refuses names that no identity has.
func validWho(who string) error {
	if err := planrecord.ValidIdentity(who); err != nil {
		return &fault.Error{Reason: fault.BadTicket, Message: err.Error(), Do: "give the identity a name of printable ASCII"}
	}
	return nil
}

// Drain empties pool and shuffle window behind the stream's present last document, padding where it must, and goes on.
// Rows that do not fill a step keep waiting.
func (r *Run) Drain(ctx context.Context) (uint64, error) { return r.DrainBy(ctx, "") }

// DrainBy is Drain for somebody who is known by name, which the plan's record then has.
func (r *Run) DrainBy(ctx context.Context, who string) (uint64, error) {
	if err := validWho(who); err != nil {
		return 0, err
	}
	return r.ask(ctx, planrecord.Drain{By: who})
}

// Commit records that a keeper's own durable checkpoint covers all steps before step. The first commit of a name makes
// it a keeper. It is idempotent and monotone: a smaller step than before changes nothing. It returns the step before
// which all keepers cover all.
func (r *Run) Commit(ctx context.Context, keeper string, step uint64) (committed uint64, err error) {
	if err := planrecord.ValidKeeper(keeper); err != nil {
		return 0, &fault.Error{Reason: fault.BadTicket, Message: err.Error()}
	}
	return r.ask(ctx, planrecord.Commit{Keeper: keeper, Step: step})
}

// Sent returns how many steps readers of some jobs were handed, by any daemon: the index of the next step of the one
// that is furthest on. Where that is less than step it waits for what the other daemons report.
func (r *Run) Sent(ctx context.Context, step uint64, of func(job string) bool) (sent uint64) {
	const look = 10 * time.Millisecond
	for began := time.Now(); ; {
		sent = max(r.follower.Sent(of), r.coordinator.Demanded().Sent(of))
		if sent >= step || !r.coordinator.Accompanied() || time.Since(began) >= cluster.ReportTime ||
			waiting.Pause(ctx, look) != nil {
			return sent
		}
	}
}

// Leave records that a keeper keeps no checkpoints any more: it no longer counts. Idempotent.
func (r *Run) Leave(ctx context.Context, keeper string) (committed uint64, err error) {
	if err := planrecord.ValidKeeper(keeper); err != nil {
		return 0, &fault.Error{Reason: fault.BadTicket, Message: err.Error()}
	}
	return r.ask(ctx, planrecord.Leave{Keeper: keeper})
}

// Checkpoint stores the planner's state as of now and returns the step that it goes on with.
func (r *Run) Checkpoint(ctx context.Context) (uint64, error) { return r.ask(ctx, nil) }

// askPause is the time between two attempts to reach a leader.
const askPause = 20 * time.Millisecond

// ask asks the leader to record an entry, or for a checkpoint, and waits for Options.Stall at most. An entry that is
// recorded after that does no harm. Where the leader changes meanwhile, the next one is asked.
func (r *Run) ask(ctx context.Context, e planrecord.Entry) (uint64, error) {
	q := cluster.Request{After: r.plan.Position()}
	if e != nil {
		q.Record = planrecord.Encode(e)
	}
	limit, cancel := context.WithTimeout(ctx, r.options.Stall)
	defer cancel()
	if _, drain := e.(planrecord.Drain); drain && r.clustered {
		h, _ := r.plan.Head()
		var err error
		if q.Least, err = r.streams.Present(limit, h); err != nil {
			return 0, err
		}
	}
	a, err := r.asks(ctx, limit, q)
	return a.At, err
}

// asks puts a question to the leader, whichever daemon that is, until limit ends.
func (r *Run) asks(ctx, limit context.Context, q cluster.Request) (leader.Result, error) {
	for {
		now := r.plan.Now()
		if now.Failed != nil {
			return leader.Result{}, now.Failed
		}
		a, err := r.coordinator.Ask(limit, q)
		switch {
		case limit.Err() == nil && errors.Is(err, fault.ErrNoLeader):
		case ctx.Err() != nil:
			return leader.Result{}, ctx.Err()
		case limit.Err() != nil:
			return leader.Result{}, r.follower.Unanswered()
		default:
			return a, err
		}
		q.Again = true
		select {
		case <-time.After(askPause):
		case <-now.Changed: // the run may have failed
		case <-limit.Done():
		}
	}
}

// Measure has the leader count how many steps the run will have, in the background: it reads every document that is
// left once more, and plans it beside the run. Info tells how far that is. It is refused while a source is not sealed,
// and for a run without an end.
func (r *Run) Measure(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, r.options.Stall)
	defer cancel()
	_, err := r.asks(ctx, limit, cluster.Request{Measure: true})
	return err
}

// Length returns how many steps the run has or will have, nil while no daemon that plans it has told.
func (r *Run) Length() *state.Length {
	if now := r.plan.Now(); now.Ended {
		return &state.Length{Steps: now.Steps, Exact: true}
	}
	l := r.coordinator.Length()
	if l != nil && !l.Exact && !l.Endless && !l.Idle { // an estimate may be older than the newest steps
		l.Steps = max(l.Steps, r.plan.Now().Steps)
	}
	return l
}

// Mix changes the mixture: weights, sources that come and go. It takes effect with the next document that is planned.
func (r *Run) Mix(ctx context.Context, q state.MixRequest) (state.MixResult, error) {
	if err := validWho(q.By); err != nil {
		return state.MixResult{}, err
	}
	if err := errors.Join(q.Validate(), planrecord.ValidRequest(q.Request)); err != nil {
		return state.MixResult{}, &fault.Error{Reason: fault.BadTicket, Message: err.Error()}
	}
	if q.Request == "" {
		q.Request = rand.Text()
	}
	m := planrecord.Mix{Change: q.Change, By: q.By, Decided: q.Decided, Request: q.Request}
	limit, cancel := context.WithTimeout(ctx, r.options.Stall)
	defer cancel()
	a, err := r.asks(ctx, limit, cluster.Request{Record: planrecord.Encode(m), DryRun: q.DryRun})
	if err != nil {
		return state.MixResult{}, err
	}
	if a.Mix == nil {
		return state.MixResult{}, &fault.Error{Reason: fault.RunFailed,
			Message: "the leader's answer to a change of the mixture has no mixture", Do: "run one version on all daemons"}
	}
	result := *a.Mix
	result.Weights = maps.Clone(result.Weights) // the planner keeps its own
	return result, nil
}

// AskLength asks the leader of a run, over the bus of its daemons, how many steps the run will have; nil where that is
// not known.
func AskLength(ctx context.Context, b backend.Bus) (*state.Length, error) {
	return cluster.AskLength(ctx, b)
}
