package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"loaderd/internal/event"
	"loaderd/loader/fault"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/ranks"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/state"
)

// Coordinator gives a daemon's follower access to the leader: in the same process while that process leads, otherwise
// over the bus.
type Coordinator struct {
	setup      leader.Setup
	leadership *leadership
	remote     *remoteLeader
	demands    *demands
	heartbeats *heartbeats
	requester  *requester
	follower   *planFollower
	connection *connection
	documents  *Documents
}

// New returns the coordinator of a daemon. The leader is created from s, r registers the daemon's readers, and other
// daemons may request the documents of cache.
func New(s leader.Setup, r *ranks.Registry, cache ContentCache) *Coordinator {
	remote := newRemoteLeader(s.View)
	leadership := &leadership{setup: s, remote: remote}
	demands := newDemands(s.Options, s.View, leadership.setDemand)
	conn, grew := &connection{readState: s.Backends.Connection}, make(chan struct{}, 1)
	c := &Coordinator{
		setup: s, leadership: leadership, remote: remote, demands: demands, connection: conn,
		heartbeats: &heartbeats{
			setup: s, demands: demands, leadership: leadership, remote: remote, ranks: r, connection: conn,
			changed: make(chan struct{}, 1), planGrew: grew,
		},
		follower: &planFollower{setup: s, leadership: leadership, remote: remote, planGrew: grew},
	}
	c.documents = &Documents{view: s.View, leadership: leadership, remote: remote, cache: cache,
		answers: make(chan struct{}, maxDocumentAnswers)}
	if s.Backends.Bus != nil {
		c.documents.request = s.Backends.Bus.Request
	}
	c.requester = &requester{setup: s, leadership: leadership, length: c.Length, documents: c.documents}
	return c
}

// Documents returns the exchange of documents with the other daemons.
func (c *Coordinator) Documents() *Documents { return c.documents }

// Open prepares a leader, which reads the plan. It returns an error for a plan that this process could not continue.
func (c *Coordinator) Open(ctx context.Context) error {
	if err := c.leadership.prepare(ctx); err != nil {
		return err
	}
	c.demands.refresh()
	return nil
}

// SetAddress sets the address at which readers reach this daemon. It must be called before Serve.
func (c *Coordinator) SetAddress(uri string) { c.heartbeats.address = uri }

// Serve leads the run while this process holds the lease, and otherwise follows the plan of another leader. It
// returns when ctx is done or on a permanent error.
func (c *Coordinator) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go c.connection.sampleStates(ctx) // not awaited: the check of a connection may hang
	if c.setup.Backends.Elector == nil {
		defer c.leadership.dropLeader()
		return c.leadership.current().Serve(ctx)
	}
	unsubscribe, err := c.setup.Backends.Bus.Subscribe(c.heartbeats.receive)
	if err != nil {
		return err
	}
	defer unsubscribe()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.heartbeats.run(ctx) })
	g.Go(func() error { return c.follower.run(ctx) })
	g.Go(func() error { return c.elect(ctx) })
	return g.Wait()
}

// elect leads the run whenever this process acquires the lease.
func (c *Coordinator) elect(ctx context.Context) error {
	defer c.leadership.dropLeader()
	for {
		lease, err := c.setup.Backends.Elector.Acquire(ctx)
		if err != nil {
			return err
		}
		err = c.leadership.leadRun(ctx, lease, c.Open, c.requester.handleRequest)
		c.leadership.dropLeader()
		err = errors.Join(err, lease.Close())
		if ctx.Err() != nil && errors.Is(err, fault.ErrLeadershipLost) { // a daemon that stops need not lead
			return ctx.Err()
		}
		var refused *fault.Error
		notLeading := errors.As(err, &refused) && refused.Reason == fault.NotLeading
		if ctx.Err() != nil || !errors.Is(err, fault.ErrLeadershipLost) && !notLeading {
			return err
		}
		c.setup.Log.Warn("lost leadership", event.LeadershipLost, "cause", err)
		if err := waiting.Sleep(ctx, leader.RetryPause); err != nil {
			return err
		}
	}
}

// Leader returns the leader in this process; nil while another process leads.
func (c *Coordinator) Leader() *leader.Leader { return c.leadership.current() }

// HasLeader reports whether this process leads or has received a report of another leader.
func (c *Coordinator) HasLeader() bool {
	return c.leadership.current() != nil || c.remote.reportCount() > 0
}

// SendRequest sends a request to the leader, in any process. fault.ErrNoLeader means that the caller should repeat the
// request.
func (c *Coordinator) SendRequest(ctx context.Context, q Request) (leader.Result, error) {
	return c.requester.sendRequest(ctx, q)
}

// SetDemand implements follower.Leader.
func (c *Coordinator) SetDemand(d state.Demand) {
	c.demands.setLocal(d)
	if c.setup.Backends.Elector != nil {
		waiting.Signal(c.heartbeats.changed)
	}
}

// TotalDemand implements follower.Leader.
func (c *Coordinator) TotalDemand() state.Demand { return c.demands.totalDemand() }

// HasPeers reports whether other daemons of the run have sent a heartbeat recently.
func (c *Coordinator) HasPeers() bool { return c.demands.peerCount() > 0 }

// Report implements follower.Leader.
func (c *Coordinator) Report() state.Report {
	l := c.leadership.current()
	if l == nil {
		return c.remote.report(c.connection.lastState())
	}
	r := l.Report()
	r.Connection, r.LeaderUnknown = c.connection.lastState(), l.IsLeaseUncertain()
	return r
}

// AwaitReports waits until the leader in another process has sent two reports, because the first may have been in
// flight already. elsewhere is true if the leader is in another process, and reported if both reports arrived in
// time: a leader that sent a heartbeat a moment ago may have lost the lease. It returns early if ctx is done.
func (c *Coordinator) AwaitReports(ctx context.Context) (elsewhere, reported bool) {
	const limit, look = 4 * heartbeatInterval, 10 * time.Millisecond
	if c.leadership.current() != nil {
		return false, false
	}
	before := c.remote.reportCount()
	for began := time.Now(); time.Since(began) < limit && waiting.Sleep(ctx, look) == nil; {
		if c.remote.reportCount() >= before+2 {
			return true, true
		}
	}
	return true, false
}

// Addresses returns the addresses at which readers reach the run's daemons, and the leader's address.
func (c *Coordinator) Addresses() (daemons []string, leader string) {
	own := c.heartbeats.address
	if c.setup.Backends.Elector == nil || own == "" {
		return nil, ""
	}
	leader = c.remote.address()
	if c.leadership.current() != nil {
		leader = own
	}
	all := map[string]bool{own: true}
	for _, flight := range c.demands.addresses() {
		all[flight] = true
	}
	return slices.Sorted(maps.Keys(all)), leader
}

// Length returns the run's length as estimated by the leader, in any process; nil while it is unknown.
func (c *Coordinator) Length() *state.Length {
	if l := c.leadership.current(); l != nil {
		return l.RunLength()
	}
	return c.remote.length()
}
