package stream

import (
	"context"
	"time"

	"loaderd/stream/conn"
)

const (
	// placementTimeout is how long ensure retries while a cluster refuses to create a stream because servers are down:
	// in a starting cluster they become available one by one.
	placementTimeout = 30 * time.Second
	// absenceTimeout is how long Doubt considers "stream not found" from a cluster as transient: the server may have
	// been cut off since before the stream was created.
	absenceTimeout = 5 * time.Second
)

// ensure calls f, which creates something if it does not exist, until f succeeds or fails with a final error.
func (s *Store) ensure(ctx context.Context, what string, f func(ctx context.Context) error) error {
	began := time.Now()
	return s.Retry(ctx, what, func(ctx context.Context) error {
		err := f(ctx)
		if conn.IsNoPeers(err) && !conn.IsTooFewServers(err) && s.Clustered() && time.Since(began) < placementTimeout {
			return conn.AsTransient(err)
		}
		return err
	})
}
