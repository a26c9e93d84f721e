package conn

import (
	"context"
	"errors"
	"time"
)

const (
	// leaderCheckInterval is the interval of requests to a server of a cluster for JetStream's leader, each bounded by
	// askLimit. A server that is cut off from the cluster continues to serve reads from its own data. It reports the
	// missing leader after 10 s.
	leaderCheckInterval = 2 * time.Second
	leaderCheckTimeout  = time.Second
	// maxMissedResponses is the number of consecutive missing responses before the client tries another server. An
	// election is shorter than this.
	maxMissedResponses = 5
)

var errCutOff = errors.New("the server knows of no JetStream leader: it may be cut off from the others")

// closeCutOff closes the connection to a cluster's server that has had no leader for too long. The client then
// reconnects to another server, which may be with the majority. If the client has no other server, it stays.
// closeCutOff returns when ctx ends.
func (c *Client) closeCutOff(ctx context.Context, l *trackingDialer) {
	tick := time.NewTicker(leaderCheckInterval)
	defer tick.Stop()
	var of *trackedConn
	missing := 0 // consecutive missing responses over this line
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := l.current.Load()
		if now != of || !c.Clustered() || len(c.nc.Servers()) < 2 || c.requestAccount(ctx, leaderCheckTimeout) == nil {
			of, missing = now, 0
			continue
		}
		if missing++; missing >= maxMissedResponses {
			now.closeFor(errCutOff)
			missing = 0
		}
	}
}
