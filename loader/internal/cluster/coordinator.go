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
}

// New returns the coordinator of a daemon. The leader is created from s, and r registers the daemon's readers.
func New(s leader.Setup, r *ranks.Registry) *Coordinator {
	remote := newRemoteLeader(s.View)
	leadership := &leadership{setup: s, remote: remote}
	demands := newDemands(s.Options, s.View, leadership.want)
	conn, grew := &connection{take: s.Backends.Connection}, make(chan struct{}, 1)
	c := &Coordinator{
		setup: s, leadership: leadership, remote: remote, demands: demands, connection: conn,
		heartbeats: &heartbeats{
			setup: s, demands: demands, leadership: leadership, remote: remote, ranks: r, connection: conn,
			changed: make(chan struct{}, 1), planGrew: grew,
		},
		follower: &planFollower{setup: s, leadership: leadership, remote: remote, grew: grew},
	}
	c.requester = &requester{setup: s, leadership: leadership, length: c.Length}
	return c
}

// Open prepares a leader, which reads the plan. It returns an error for a plan that this process could not continue.
func (c *Coordinator) Open(ctx context.Context) error {
	if err := c.leadership.prepare(ctx); err != nil {
		return err
	}
	c.demands.refresh()
	return nil
}

// ServesAt sets the address at which readers reach this daemon. It must be called before Serve.
func (c *Coordinator) ServesAt(uri string) { c.heartbeats.flight = uri }

// Serve leads the run while this process holds the lease, and otherwise follows the plan of another leader. It
// returns when ctx is done or on a permanent error.
func (c *Coordinator) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go c.connection.watch(ctx) // not awaited: the check of a connection may hang
	if c.setup.Backends.Elector == nil {
		defer c.leadership.end()
		return c.leadership.present().Serve(ctx)
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
	defer c.leadership.end()
	for {
		lease, err := c.setup.Backends.Elector.Acquire(ctx)
		if err != nil {
			return err
		}
		err = c.leadership.lead(ctx, lease, c.Open, c.requester.answer)
		c.leadership.end()
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
		if err := waiting.Pause(ctx, leader.LeadPause); err != nil {
			return err
		}
	}
}

// Leader returns the leader in this process; nil while another process leads.
func (c *Coordinator) Leader() *leader.Leader { return c.leadership.present() }

// Led reports whether this process leads or has received a report of another leader.
func (c *Coordinator) Led() bool { return c.leadership.present() != nil || c.remote.count() > 0 }

// Ask sends a request to the leader, in any process. fault.ErrNoLeader means that the caller should repeat the
// request.
func (c *Coordinator) Ask(ctx context.Context, q Request) (leader.Result, error) {
	return c.requester.ask(ctx, q)
}

// Want implements follower.Leader.
func (c *Coordinator) Want(d state.Demand) {
	c.demands.setOwn(d)
	if c.setup.Backends.Elector != nil {
		waiting.Signal(c.heartbeats.changed)
	}
}

// Demanded implements follower.Leader.
func (c *Coordinator) Demanded() state.Demand { return c.demands.all() }

// Accompanied reports whether other daemons of the run have sent a heartbeat recently.
func (c *Coordinator) Accompanied() bool { return c.demands.others() > 0 }

// Report implements follower.Leader.
func (c *Coordinator) Report() state.Report {
	l := c.leadership.present()
	if l == nil {
		return c.remote.report(c.connection.last())
	}
	r := l.Report()
	r.Connection, r.Unheard = c.connection.last(), l.Doubted()
	return r
}

// Listen waits until the leader in another process has sent two reports, because the first may have been in flight
// already. elsewhere reports whether the leader is in another process. heard reports whether two reports arrived in
// time: a leader that sent a heartbeat a moment ago may have lost the lease.
func (c *Coordinator) Listen() (elsewhere, heard bool) {
	const limit, look = 4 * heartbeatInterval, 10 * time.Millisecond
	if c.leadership.present() != nil {
		return false, false
	}
	before := c.remote.count()
	for began := time.Now(); time.Since(began) < limit; {
		time.Sleep(look)
		if c.remote.count() >= before+2 {
			return true, true
		}
	}
	return true, false
}

// Addresses returns the addresses at which readers reach the run's daemons, and the leader's address.
func (c *Coordinator) Addresses() (daemons []string, leader string) {
	own := c.heartbeats.flight
	if c.setup.Backends.Elector == nil || own == "" {
		return nil, ""
	}
	leader = c.remote.flight()
	if c.leadership.present() != nil {
		leader = own
	}
	all := map[string]bool{own: true}
	for _, flight := range c.demands.flights() {
		all[flight] = true
	}
	return slices.Sorted(maps.Keys(all)), leader
}

// Length returns the run's length as estimated by the leader, in any process; nil while it is unknown.
func (c *Coordinator) Length() *state.Length {
	if l := c.leadership.present(); l != nil {
		return l.RunLength()
	}
	return c.remote.length()
}
