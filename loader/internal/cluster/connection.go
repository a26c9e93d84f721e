package cluster

import (
	"context"
	"time"
)

// connectionEvery is how often the state of the connection is taken.
const connectionEvery = time.Second

// WatchConnection keeps the state of this daemon's connection until ctx ends. Reports do not take it themselves: the
// server inside the daemon checks each of its streams for it, which takes long while its disk hangs.
func (o *Coordinator) WatchConnection(ctx context.Context) {
	if o.Backends.Connection == nil {
		return
	}
	tick := time.NewTicker(connectionEvery)
	defer tick.Stop()
	for {
		c := o.Backends.Connection()
		o.connection.Store(&c)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
