package cluster

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
	"loaderd/loader/fault"
	"loaderd/loader/internal/jobspans"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/ranks"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

const (
	// heartbeatInterval is the time between two heartbeats of a daemon when nothing has changed.
	heartbeatInterval = 250 * time.Millisecond
	// ReportTime is the time within which every live daemon has sent what its readers want now.
	ReportTime = 2 * heartbeatInterval
	// minHeartbeatInterval is the least time between two heartbeats.
	minHeartbeatInterval = 5 * time.Millisecond
	// pollInterval is the time between two polls of the plan when no heartbeat announces new records.
	pollInterval = 500 * time.Millisecond
	// requestTimeout is the time after which an unanswered request is sent again, to the daemon that leads by then.
	requestTimeout = 5 * time.Second
)

// Coordinator is where a daemon's follower finds the leader: in the same process while that leads, over the bus else.
type Coordinator struct {
	Name         string
	Config       plan.Config
	Options      backend.Options
	Backends     backend.Backends
	Streams      *planview.Streams
	log          *slog.Logger
	plan         *planview.View
	Ranks        *ranks.Registry         // of the follower
	Observer     leader.DocumentObserver // of leaders here
	Flight       string                  // where readers find this daemon; empty when they need not be told
	stateChanged chan struct{}           // signals that a heartbeat is due
	planGrew     chan struct{}           // signals that the plan may have grown
	// connection is that of this daemon; empty while it is unknown.
	connection atomic.Pointer[backend.Connection]

	mu      sync.Mutex
	leader  *leader.Leader // nil while another process leads
	leads   bool           // the leader's term has begun, or there are no other daemons
	own     state.Demand   // of this process's follower
	daemons map[string]*daemon
	// departed are the jobs of daemons that stopped or are silent: they retain documents until they read from another daemon.
	departed     *jobspans.Spans
	pages        reportPages
	leaderReport state.Report // by the leader elsewhere ...
	heard        time.Time    // ... then
	any          bool         // it has been told something
	times        uint64       // that it was told
	claimed      uint64       // the first step that can be read, as it was told; 0 when that has been looked at
	unconfirmed  unconfirmedLeader
}

// unconfirmedLeader is a daemon that leads by its last heartbeat, and not by the plan as far as it is known here. It may have the next
// term; then the plan is longer than is known here.
type unconfirmedLeader struct {
	daemon string
	heard  time.Time
}

// daemon is another daemon of the run.
type daemon struct {
	flight string
	demand state.Demand
	heard  time.Time
}

// New returns the coordinator of a daemon. Observer and Ranks are set before Open.
func New(name string, c plan.Config, o backend.Options, e backend.Backends, s *planview.Streams, log *slog.Logger, v *planview.View) *Coordinator {
	return &Coordinator{Name: name, Config: c, Options: o, Backends: e, Streams: s, log: log, plan: v, stateChanged: make(chan struct{}, 1), planGrew: make(chan struct{}, 1),
		own: state.NewDemand(), daemons: map[string]*daemon{}, departed: jobspans.New(o), heard: time.Now()}
}

func newLeader(o *Coordinator) *leader.Leader {
	return leader.New(leader.Setup{Name: o.Name, Config: o.Config, Options: o.Options, Backends: o.Backends, Streams: o.Streams, Log: o.log, View: o.plan, Observer: o.Observer})
}

// Open prepares a leader, which reads the plan and refuses what this process could not plan on.
func (o *Coordinator) Open(ctx context.Context) error {
	l := newLeader(o)
	if err := l.Open(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leader = l
	l.Want(o.demandOfAll())
	return nil
}

// Serve leads while it is this process's turn, and follows the plan of others else, until ctx is done or something fails for good.
func (o *Coordinator) Serve(ctx context.Context) error {
	if o.Backends.Elector == nil {
		defer o.close()
		return o.leader.Serve(ctx)
	}
	stop, err := o.Backends.Bus.Subscribe(o.onHeartbeat)
	if err != nil {
		return err
	}
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.publishHeartbeats(ctx) })
	g.Go(func() error { return o.follow(ctx) })
	g.Go(func() error { return o.run(ctx) })
	return g.Wait()
}

// run takes the lead whenever it can be had.
func (o *Coordinator) run(ctx context.Context) error {
	defer o.close()
	for {
		lead, err := o.Backends.Elector.Acquire(ctx)
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
		if err := waiting.Pause(ctx, leader.LeadPause); err != nil {
			return err
		}
	}
}

// lead plans until ctx is done, another daemon leads, or something fails. Once another leads, that is why it ends, whatever failed by it.
func (o *Coordinator) lead(ctx context.Context, lead backend.Lease) (err error) {
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
	for wait := time.Duration(0); !o.begins(lead); wait = leader.LeadPause { // it stays overtaken while whoever led before still appends
		if err := waiting.Pause(ctx, wait); err != nil {
			return err
		}
		if err := o.Open(ctx); err != nil {
			return err
		}
	}
	quiet, err := o.Backends.Bus.Serve(o.answer)
	if err != nil {
		return err
	}
	defer quiet()
	err = o.leader.Serve(ctx)
	if err != nil && ctx.Err() == nil { // to one that leads no more what others have released looks lost
		limit, cancel := context.WithTimeout(ctx, o.Options.Stall)
		defer cancel()
		if sure := lead.Verify(limit); errors.Is(sure, fault.ErrLeadershipLost) {
			return errors.Join(sure, err)
		}
	}
	return err
}

// begins lets the leader that is prepared lead, unless the plan has grown since it was: then it would have too much to plan again.
func (o *Coordinator) begins(lead backend.Lease) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leads = o.leader != nil && !o.overtaken()
	if o.leads {
		o.leader.VerifyBy(lead.Verify)
	}
	return o.leads
}

// overtaken reports whether the plan has grown since the leader was prepared. The caller holds mu.
func (o *Coordinator) overtaken() bool { return o.plan.Position() > o.leader.Records() }

// stands drops the leader that is prepared when the plan has grown without it: it holds as much memory as one that leads.
func (o *Coordinator) stands() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.leads && o.leader != nil && o.overtaken() {
		o.leader = nil
	}
}

// close gives the leader up: who waits for its answers asks the next one.
func (o *Coordinator) close() {
	o.mu.Lock()
	l := o.leader
	if l != nil {
		o.leaderReport, o.heard, o.any = l.Report(), time.Now(), false // whoever leads next may be further
	}
	o.leader, o.leads = nil, false
	o.mu.Unlock()
	if l != nil {
		l.End()
	}
}

// Present returns the leader in this process, nil while another one leads.
func (o *Coordinator) Present() *leader.Leader {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.here()
}

// here is present. The caller holds mu.
func (o *Coordinator) here() *leader.Leader {
	if o.leads || o.Backends.Elector == nil {
		return o.leader
	}
	return nil
}

// Led reports whether this process leads, or has heard of another one that does.
func (o *Coordinator) Led() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.here() != nil || o.times > 0
}

// follow takes in what another process appends to the plan.
func (o *Coordinator) follow(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-o.planGrew:
		}
		if o.Present() != nil {
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
func (o *Coordinator) Want(d state.Demand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.own = d
	if o.leader != nil {
		o.leader.Want(o.demandOfAll())
	}
	if o.Backends.Elector != nil {
		waiting.Signal(o.stateChanged)
	}
}

// demandOfAll returns what the readers of all daemons want that have been heard of lately. The caller holds mu.
func (o *Coordinator) demandOfAll() state.Demand {
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
func (o *Coordinator) depart(id string) {
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
func (o *Coordinator) Demanded() state.Demand {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.demandOfAll()
}

// Accompanied reports whether other daemons of the run have been heard of lately.
func (o *Coordinator) Accompanied() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.daemons) > 0
}

// Report implements follower.Leader.
func (o *Coordinator) Report() state.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.here(); l != nil {
		r := l.Report()
		r.Connection, r.Unheard = o.connection.Load(), l.Doubted()
		return r
	}
	r := o.leaderReport
	r.Elsewhere, r.Silent = true, time.Since(o.heard)
	if r.Silent >= state.HeartbeatTimeout { // it explains missing heartbeats
		r.Connection = o.connection.Load()
	}
	r.Unheard = !o.any || r.Silent >= state.HeartbeatTimeout || time.Since(o.unconfirmed.heard) < state.HeartbeatTimeout && !o.plan.LedBy(o.unconfirmed.daemon)
	return r
}

// Listen waits until the leader elsewhere has sent two reports: the first of them may have been under way. It returns whether there
// is a leader elsewhere, and whether it has said so: one that was heard a moment ago may lead no more.
func (o *Coordinator) Listen() (elsewhere, heard bool) {
	const limit, look = 4 * heartbeatInterval, 10 * time.Millisecond
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

// Addresses returns where readers find the run's daemons, and the one that leads.
func (o *Coordinator) Addresses() (daemons []string, leader string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Backends.Elector == nil || o.Flight == "" {
		return nil, ""
	}
	switch {
	case o.leads:
		leader = o.Flight
	case time.Since(o.heard) <= state.HeartbeatTimeout:
		leader = o.leaderReport.Flight
	}
	all := map[string]bool{o.Flight: true}
	for _, d := range o.daemons {
		if time.Since(d.heard) <= state.HeartbeatTimeout && d.flight != "" {
			all[d.flight] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), leader
}

// Length is what the leader says of the run's length, here or elsewhere.
func (o *Coordinator) Length() *state.Length {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.here(); l != nil {
		return l.RunLength()
	}
	if o.leaderReport.Length == nil {
		return nil
	}
	told := *o.leaderReport.Length
	return &told
}
