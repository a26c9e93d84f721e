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

// Coordinator is where a daemon's follower finds the leader: in the same process while that leads, otherwise over the
// bus.
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

// New returns the coordinator of a daemon whose leader is made of s and whose readers are in r.
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

// Open prepares a leader, which reads the plan. It refuses a plan that this process could not continue.
func (c *Coordinator) Open(ctx context.Context) error {
	if err := c.leadership.prepare(ctx); err != nil {
		return err
	}
	c.demands.refresh()
	return nil
}

// ServesAt sets where readers find this daemon. It is called before Serve.
func (c *Coordinator) ServesAt(uri string) { c.heartbeats.flight = uri }

// Serve leads while it is this process's turn, and otherwise follows the plan of others, until ctx is done or something
// fails for good.
func (c *Coordinator) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go c.connection.watch(ctx) // Serve does not wait for it: the check of a connection may hang
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

// elect has this process lead whenever it gets the lease.
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
		c.setup.Log.Warn("this daemon no longer leads the run", event.LeadershipLost, "cause", err)
		if err := waiting.Pause(ctx, leader.LeadPause); err != nil {
			return err
		}
	}
}

// Leader returns the leader in this process, nil while another one leads.
func (c *Coordinator) Leader() *leader.Leader { return c.leadership.present() }

// Led reports whether this process leads, or has heard of another one that does.
func (c *Coordinator) Led() bool { return c.leadership.present() != nil || c.remote.count() > 0 }

// Ask has the leader, in any process, answer a request. fault.ErrNoLeader means that the request should be repeated.
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

// Accompanied reports whether other daemons of the run have been heard of lately.
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

// Listen waits until the leader in another process has sent two reports: the first of them may have been under way. It
// returns whether the leader is in another process, and whether the reports have been received: a leader that was heard
// a moment ago may have lost the lease.
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

// Addresses returns where readers find the run's daemons, and the one that leads.
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

// Length returns how long the run will be, by the leader in any process; nil while that is not known.
func (c *Coordinator) Length() *state.Length {
	if l := c.leadership.present(); l != nil {
		return l.RunLength()
	}
	return c.remote.length()
}
