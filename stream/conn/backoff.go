package conn

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff returns the pauses between attempts: they double from at most 50 ms, and none is longer than
// Options.ReconnectWait. Each is drawn at random, so that the clients of one server do not reconnect at the same
// moment. In a cluster the pauses stay short, because an election takes only seconds and appends wait for it. The
// result is not safe for concurrent use.
func (c *Client) Backoff() *backoff.ExponentialBackOff {
	limit := c.options.ReconnectWait
	if c.Clustered() {
		limit = min(limit, maxClusterPause)
	}
	return newBackoff(limit)
}

// maxClusterPause is the longest pause between two attempts in a cluster.
const maxClusterPause = 400 * time.Millisecond

func newBackoff(limit time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.Multiplier, b.RandomizationFactor = 2, 0.5 // a pause is half to one and a half times its mean
	b.MaxInterval = limit * 2 / 3
	b.InitialInterval = min(50*time.Millisecond, limit) * 2 / 3
	b.Reset()
	return b
}

// reconnectDelay returns the same pauses for the client library, which counts attempts from 1 after each disconnect.
func reconnectDelay(limit time.Duration) func(attempts int) time.Duration {
	b := newBackoff(limit)
	return func(attempts int) time.Duration {
		if attempts <= 1 {
			b.Reset()
		}
		return b.NextBackOff()
	}
}
