package loader_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
)

// testCluster is a test cluster of the daemons of one run: their elector and their bus.
type testCluster struct {
	mu      sync.Mutex
	leader  *memLease
	free    chan struct{} // closed while no daemon leads
	ears    map[int]func([]byte)
	answers map[int]func(context.Context, []byte) []byte
	next    int
	deaf    bool // heartbeats are lost
	blinded bool // a daemon lost the lease without noticing
	mute    bool // the next response is lost, and its sender has lost leadership
	// documents changes the answer to a request for documents; nil leaves it
	documents func(answer []byte) ([]byte, error)
	notices   time.Duration // delay until a daemon's lease reports the loss
}

func newTestCluster() *testCluster {
	c := &testCluster{notices: 3 * time.Second, free: make(chan struct{}), ears: map[int]func([]byte){},
		answers: map[int]func(context.Context, []byte) []byte{}}
	close(c.free)
	return c
}

// memLease is the lease of one daemon.
type memLease struct {
	c     *testCluster
	over  chan struct{}
	blind bool // Verify succeeds whichever daemon leads
}

// leaseLoss states how a daemon notices that it has lost the lease.
type leaseLoss string

const (
	lossReported  leaseLoss = "is reported"
	lossSuspected leaseLoss = "is suspected"
	lossUnnoticed leaseLoss = "is not noticed"
)

func (c *testCluster) Acquire(ctx context.Context) (backend.Lease, error) {
	for {
		c.mu.Lock()
		if c.leader == nil {
			c.leader, c.free = &memLease{c: c, over: make(chan struct{})}, make(chan struct{})
			defer c.mu.Unlock()
			return c.leader, nil
		}
		free := c.free
		c.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// depose takes the lease away from the current leader.
func (c *testCluster) depose(knows leaseLoss) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == nil {
		return
	}
	c.leader.blind = knows == lossUnnoticed
	c.blinded = c.blinded || c.leader.blind
	if over := c.leader.over; knows == lossReported {
		close(over)
	} else { // its lease notices the loss at the next renewal
		time.AfterFunc(c.notices, func() { close(over) })
	}
	c.leader = nil
	close(c.free)
}

func (l *memLease) Verify(context.Context) error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.leader != l && !l.blind {
		return fault.ErrLeadershipLost
	}
	return nil
}

func (l *memLease) Lost() <-chan struct{} { return l.over }
func (l *memLease) Close() error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.leader == l {
		l.c.leader = nil
		close(l.c.free)
	}
	return nil
}

func (c *testCluster) Publish(word []byte) error {
	c.mu.Lock()
	ears := slices.Collect(maps.Values(c.ears))
	if c.deaf {
		ears = nil
	}
	c.mu.Unlock()
	for _, f := range ears {
		f(word)
	}
	return nil
}

func (c *testCluster) Subscribe(f func([]byte)) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	id := c.next
	c.ears[id] = f
	return func() { c.mu.Lock(); defer c.mu.Unlock(); delete(c.ears, id) }, nil
}

func (c *testCluster) Serve(f func(context.Context, []byte) []byte) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	id := c.next
	c.answers[id] = f
	return func() { c.mu.Lock(); defer c.mu.Unlock(); delete(c.answers, id) }, nil
}

func (c *testCluster) Request(ctx context.Context, question []byte) ([]byte, error) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.answers))
	c.mu.Unlock()
	if len(all) == 0 {
		return nil, fault.ErrNoLeader
	}
	answer := all[rand.IntN(len(all))](ctx, question)
	c.mu.Lock()
	if change := c.documents; question[0] != '{' {
		c.mu.Unlock()
		if change != nil {
			return change(answer)
		}
		return answer, nil
	}
	mute := c.mute
	c.mute = false
	c.mu.Unlock()
	if mute {
		c.depose(lossReported)
		return nil, fault.ErrNoLeader
	}
	return answer, nil
}

// join starts one more daemon of a fixture's run. more changes its backends.
func (w *fixture) join(t *testing.T, c *testCluster, name string,
	more ...func(*backend.Backends)) (run *loader.Run, stop func() error) {
	t.Helper()
	before := w.edges
	defer func() { w.edges = before }()
	w.edges = func(e *backend.Backends) {
		if before != nil {
			before(e)
		}
		e.Elector, e.Bus, e.Daemon = c, c, name
		for _, change := range more {
			change(e)
		}
	}
	run, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	run.SetAddress("grpc://" + name)
	return run, w.serve(t, run)
}

// setDeaf starts or ends the loss of heartbeats.
func (c *testCluster) setDeaf(deaf bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = deaf
}
