package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"loaderd/loader/backend"
)

// connectionEvery is how often the state of the connection is taken.
const connectionEvery = time.Second

// connection is the state of this daemon's connection to the servers. Reports do not take it themselves: the server
// inside the daemon checks each of its streams for it, which takes long while its disk hangs.
type connection struct {
	take  func() backend.Connection // nil where it is not known
	state atomic.Pointer[backend.Connection]
}

// last returns the state as of the last second; nil while it is unknown.
func (c *connection) last() *backend.Connection { return c.state.Load() }

// watch takes the state every second until ctx ends.
func (c *connection) watch(ctx context.Context) {
	if c.take == nil {
		return
	}
	tick := time.NewTicker(connectionEvery)
	defer tick.Stop()
	for {
		x := c.take()
		c.state.Store(&x)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
