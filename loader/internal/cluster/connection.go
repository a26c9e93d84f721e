package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"loaderd/loader/backend"
)

// connectionInterval is the interval at which the state of the connection is sampled.
const connectionInterval = time.Second

// connection caches the state of this daemon's connection to the NATS servers. Reports read the cache. Sampling can
// block: the embedded server checks each of its streams, which takes long while its disk hangs.
type connection struct {
	readState func() backend.Connection // nil if the backend does not report it
	state     atomic.Pointer[backend.Connection]
}

// lastState returns the state as sampled within the last second; nil while it is unknown.
func (c *connection) lastState() *backend.Connection { return c.state.Load() }

// sampleStates samples the state every connectionInterval until ctx is done.
func (c *connection) sampleStates(ctx context.Context) {
	if c.readState == nil {
		return
	}
	tick := time.NewTicker(connectionInterval)
	defer tick.Stop()
	for {
		x := c.readState()
		c.state.Store(&x)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
