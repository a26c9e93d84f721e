package stream

import (
	"context"
	"time"

	"loaderd/stream/conn"
)

const (
	// placementPatience is how long ensure retries while a cluster refuses to create a stream because servers are down:
	// in a starting cluster they become available one by one.
	placementPatience = 30 * time.Second
	// absencePatience is how long Doubt considers "stream not found" from a cluster as transient: the server may have
	// been cut off since before the stream was created.
	absencePatience = 5 * time.Second
)

// ensure calls f, which creates something if it does not exist, until f succeeds or fails with a final error.
func (s *Store) ensure(ctx context.Context, what string, f func(ctx context.Context) error) error {
	began := time.Now()
	return s.Retry(ctx, what, func(ctx context.Context) error {
		err := f(ctx)
		if conn.NoPeers(err) && !conn.TooFewServers(err) && s.Clustered() && time.Since(began) < placementPatience {
			return conn.Passing(err)
		}
		return err
	})
}
