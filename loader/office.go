package loader

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/jobspans"
	"loaderd/loader/internal/ranks"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

const (
	// sayEvery is how often a daemon says what its readers want, and the leader how far it is, when nothing has changed.
	sayEvery = 250 * time.Millisecond
	// reportTime is within which every live daemon has said what its readers want now.
	reportTime = 2 * sayEvery
	// sayPause is the least time between two such words.
	sayPause = 5 * time.Millisecond
	// lookEvery is how often the plan is looked at for new records when nobody says that there are any.
	lookEvery = 500 * time.Millisecond
	// askLimit is when a question that the leader has not answered is put again, to the one that leads by then.
	askLimit = 5 * time.Second
	// leadPause is the time before a daemon that has been refused tries to lead again.
	leadPause = 100 * time.Millisecond
)

// office is where a daemon's follower finds the leader: in the same process while that leads, over the bus else.
type office struct {
	name     string
	config   plan.Config
	options  backend.Options
	edges    backend.Backends
	streams  *planview.Streams
	log      *slog.Logger
	plan     *planview.View
	ranks    *ranks.Registry  // of the follower
	observer documentObserver // of leaders here
	flight   string           // where readers find this daemon; empty when they need not be told
	news     chan struct{}    // signals that there is something to say
	hint     chan struct{}    // signals that the plan may have grown
	// connection is that of this daemon; empty while it is unknown.
	connection atomic.Pointer[backend.Connection]

	mu      sync.Mutex
	leader  *leader      // nil while another process leads
	leads   bool         // the leader's term has begun, or there are no other daemons
	own     state.Demand // of this process's follower
	daemons map[string]*daemon
	// departed are the jobs of daemons that stopped or are silent: they retain documents until they read from another daemon.
	departed *jobspans.Spans
	pages    reportPages
	told     state.Report // by the leader elsewhere ...
	heard    time.Time    // ... then
	any      bool         // it has been told something
	times    uint64       // that it was told
	claimed  uint64       // the first step that can be read, as it was told; 0 when that has been looked at
	rumour   rumour
}

// rumour is the last word of a daemon that says it leads, which the plan, as far as it is known here, does not say. It may have the next term,
// and then the plan is longer than is known here.
type rumour struct {
	daemon string
	heard  time.Time
}

// daemon is another daemon of the run.
type daemon struct {
	flight string
	demand state.Demand
	heard  time.Time
}

func newOffice(name string, c plan.Config, o backend.Options, e backend.Backends, s *planview.Streams, log *slog.Logger, v *planview.View) *office {
	return &office{name: name, config: c, options: o, edges: e, streams: s, log: log, plan: v, news: make(chan struct{}, 1), hint: make(chan struct{}, 1),
		own: state.NewDemand(), daemons: map[string]*daemon{}, departed: jobspans.New(o), heard: time.Now()}
}

func (o *office) newLeader() *leader {
	return &leader{name: o.name, config: o.config, options: o.options, edges: o.edges, streams: o.streams, log: o.log, plan: o.plan, requests: make(chan request),
		more: make(chan struct{}, 1), news: newAnnouncement(), readers: map[int]document.Source{}, fills: map[int]*fillMeter{},
		opened: map[int]time.Time{}, replays: true, observer: o.observer, demand: state.NewDemand(), done: make(chan struct{}),
		long: length{wake: make(chan struct{}, 1)}}
}

// open prepares a leader, which reads the plan and refuses what this process could not plan on.
func (o *office) open(ctx context.Context) error {
	l := o.newLeader()
	if err := l.open(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leader = l
	l.Want(o.demandOfAll())
	return nil
}

// serve leads while it is this process's turn, and follows the plan of others else, until ctx is done or something fails for good.
func (o *office) serve(ctx context.Context) error {
	if o.edges.Elector == nil {
		defer o.close()
		return o.leader.serve(ctx)
	}
	stop, err := o.edges.Bus.Subscribe(o.hear)
	if err != nil {
		return err
	}
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.speak(ctx) })
	g.Go(func() error { return o.follow(ctx) })
	g.Go(func() error { return o.run(ctx) })
	return g.Wait()
}

// run takes the lead whenever it can be had.
func (o *office) run(ctx context.Context) error {
	defer o.close()
	for {
		lead, err := o.edges.Elector.Acquire(ctx)
		if err != nil {
			return err
		}
		err = o.lead(ctx, lead)
		o.close()
		err = errors.Join(err, lead.Close())
		if ctx.Err() != nil && errors.Is(err, fault.ErrLeadershipLost) { // who stops need not lead
			return ctx.Err()
		}
		var refused *fault.Error
		if ctx.Err() != nil || !errors.Is(err, fault.ErrLeadershipLost) && !(errors.As(err, &refused) && refused.Reason == fault.NotLeading) {
			return err
		}
		o.log.Warn("this daemon leads the run no more", "cause", err)
		if err := waiting.Pause(ctx, leadPause); err != nil {
			return err
		}
	}
}

// lead plans until ctx is done, another daemon leads, or something fails. Once another leads, that is why it ends, whatever failed by it.
func (o *office) lead(ctx context.Context, lead backend.Lease) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	deposed := make(chan struct{})
	go func() {
		select {
		case <-lead.Lost():
			close(deposed)
			stop()
		case <-ctx.Done():
		}
	}()
	defer func() {
		select {
		case <-deposed:
			err = fault.ErrLeadershipLost
		default:
		}
	}()
	for wait := time.Duration(0); !o.begins(lead); wait = leadPause { // it stays overtaken while whoever led before still appends
		if err := waiting.Pause(ctx, wait); err != nil {
			return err
		}
		if err := o.open(ctx); err != nil {
			return err
		}
	}
	quiet, err := o.edges.Bus.Serve(o.answer)
	if err != nil {
		return err
	}
	defer quiet()
	err = o.leader.serve(ctx)
	if err != nil && ctx.Err() == nil { // to one that leads no more what others have released looks lost
		limit, cancel := context.WithTimeout(ctx, o.options.Stall)
		defer cancel()
		if sure := lead.Verify(limit); errors.Is(sure, fault.ErrLeadershipLost) {
			return errors.Join(sure, err)
		}
	}
	return err
}

// begins lets the leader that is prepared lead, unless the plan has grown since it was: then it would have too much to plan again.
func (o *office) begins(lead backend.Lease) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leads = o.leader != nil && !o.overtaken()
	if o.leads {
		o.leader.sure = lead.Verify
	}
	return o.leads
}

// overtaken reports whether the plan has grown since the leader was prepared. The caller holds mu.
func (o *office) overtaken() bool { return o.plan.Position() > o.leader.found.Records }

// stands drops the leader that is prepared when the plan has grown without it: it holds as much memory as one that leads.
func (o *office) stands() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.leads && o.leader != nil && o.overtaken() {
		o.leader = nil
	}
}

// close gives the leader up: who waits for its answers asks the next one.
func (o *office) close() {
	o.mu.Lock()
	l := o.leader
	if l != nil {
		o.told, o.heard, o.any = l.Report(), time.Now(), false // whoever leads next may be further
	}
	o.leader, o.leads = nil, false
	o.mu.Unlock()
	if l != nil {
		close(l.done)
	}
}

// present returns the leader in this process, nil while another one leads.
func (o *office) present() *leader {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.here()
}

// here is present. The caller holds mu.
func (o *office) here() *leader {
	if o.leads || o.edges.Elector == nil {
		return o.leader
	}
	return nil
}

// follow takes in what another process appends to the plan.
func (o *office) follow(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-o.hint:
		}
		if o.present() != nil {
			continue
		}
		if err := o.plan.Follow(ctx); err != nil {
			return err
		}
		if err := o.verify(ctx); err != nil {
			return err
		}
		o.stands()
	}
}

// Want implements follower.Leader.
func (o *office) Want(d state.Demand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.own = d
	if o.leader != nil {
		o.leader.Want(o.demandOfAll())
	}
	if o.edges.Elector != nil {
		waiting.Signal(o.news)
	}
}

// demandOfAll returns what the readers of all daemons want that have been heard of lately. The caller holds mu.
func (o *office) demandOfAll() state.Demand {
	d := state.NewDemand()
	d.Join(o.own)
	for id, x := range o.daemons {
		if time.Since(x.heard) > state.HeartbeatTimeout {
			o.depart(id)
			continue
		}
		d.Join(x.demand)
	}
	if now := time.Now(); len(o.departed.Of) > 0 {
		d.Join(state.Demand{Jobs: o.departed.AddTo(nil, now), Needed: state.EveryStep})
	}
	return d
}

// depart forgets another daemon, but for what its jobs retain. The caller holds mu.
func (o *office) depart(id string) {
	x := o.daemons[id]
	if x == nil {
		return
	}
	delete(o.daemons, id)
	now, keepers := time.Now(), o.plan.Now().Keepers
	for job, d := range x.demand.Jobs {
		o.departed.Open(job, d.From, d.Sent, now)
		o.departed.Close(job, keepers, now)
	}
}

// Demanded implements follower.Leader.
func (o *office) Demanded() state.Demand {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.demandOfAll()
}

// accompanied reports whether other daemons of the run have been heard of lately.
func (o *office) accompanied() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.daemons) > 0
}

// Report implements follower.Leader.
func (o *office) Report() state.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.here(); l != nil {
		r := l.Report()
		r.Connection, r.Unheard = o.connection.Load(), l.doubted()
		return r
	}
	r := o.told
	r.Elsewhere, r.Silent = true, time.Since(o.heard)
	if r.Silent >= state.HeartbeatTimeout { // it explains missing heartbeats
		r.Connection = o.connection.Load()
	}
	r.Unheard = !o.any || r.Silent >= state.HeartbeatTimeout || time.Since(o.rumour.heard) < state.HeartbeatTimeout && !o.plan.LedBy(o.rumour.daemon)
	return r
}

// listen waits until the leader elsewhere has said twice how far it is: the first of these words may have been on its way. It returns whether there
// is a leader elsewhere, and whether it has said so: one that was heard a moment ago may lead no more.
func (o *office) listen() (elsewhere, heard bool) {
	const limit, look = 4 * sayEvery, 10 * time.Millisecond
	words := func() (uint64, bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.times, o.here() == nil
	}
	before, elsewhere := words()
	for began := time.Now(); elsewhere && time.Since(began) < limit; {
		time.Sleep(look)
		if now, _ := words(); now >= before+2 {
			return true, true
		}
	}
	return elsewhere, false
}

// addresses returns where readers find the run's daemons, and the one that leads.
func (o *office) addresses() (daemons []string, leader string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.edges.Elector == nil || o.flight == "" {
		return nil, ""
	}
	switch {
	case o.leads:
		leader = o.flight
	case time.Since(o.heard) <= state.HeartbeatTimeout:
		leader = o.told.Flight
	}
	all := map[string]bool{o.flight: true}
	for _, d := range o.daemons {
		if time.Since(d.heard) <= state.HeartbeatTimeout && d.flight != "" {
			all[d.flight] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), leader
}
