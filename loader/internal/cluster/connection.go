package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"loaderd/loader/backend"
)

// connectionEvery is the interval at which the state of the connection is sampled.
const connectionEvery = time.Second

// connection caches the state of this daemon's connection to the NATS servers. Reports read the cache. Sampling can
// block: the embedded server checks each of its streams, which takes long while its disk hangs.
type connection struct {
	take  func() backend.Connection // nil if the backend does not report it
	state atomic.Pointer[backend.Connection]
}

// last returns the state as sampled within the last second; nil while it is unknown.
func (c *connection) last() *backend.Connection { return c.state.Load() }

// watch samples the state every connectionEvery until ctx is done.
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
