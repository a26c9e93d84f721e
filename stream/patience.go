package stream

import (
	"context"
	"time"

	"loaderd/stream/conn"
)

const (
	// placementPatience is for how long a cluster may refuse to make something because servers are down: when all start
	// they come one by one.
	placementPatience = 30 * time.Second
	// absencePatience is for how long a cluster has to say that there is no stream of a name: who says so may have been
	// cut off since before it was made.
	absencePatience = 5 * time.Second
)

// ensure calls f, which makes something where it is not there, until it succeeds or fails for good.
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
