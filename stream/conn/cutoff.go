package conn

import (
	"context"
	"errors"
	"time"
)

const (
	// askEvery is how often a server of a cluster is asked for JetStream's leader, for askLimit at most. A server that is
	// cut off from the others goes on answering reads, with what it has; without a leader it says so after 10 s.
	askEvery = 2 * time.Second
	askLimit = time.Second
	// cutOffAfter is how many answers have to be missing, one after the other, before another server is tried: an election
	// takes less.
	cutOffAfter = 5
)

var errCutOff = errors.New("the server knows of no JetStream leader: it may be cut off from the others")

// leaveCutOff ends the connection to a server of a cluster that has no leader for long, until ctx ends: the client goes
// to another one, which may be with the majority. Where it knows of no other it stays.
func (c *Client) leaveCutOff(ctx context.Context, l *lines) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var of *line
	missing := 0 // answers over this line
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := l.last.Load()
		if now != of || !c.Clustered() || len(c.nc.Servers()) < 2 || c.askAccount(ctx, askLimit) == nil {
			of, missing = now, 0
			continue
		}
		if missing++; missing >= cutOffAfter {
			now.leave(errCutOff)
			missing = 0
		}
	}
}
