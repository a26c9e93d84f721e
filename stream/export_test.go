package stream

import (
	"context"
	"time"
)

// RetryEnsure calls f as the functions do that create streams and buckets.
func (s *Store) RetryEnsure(ctx context.Context, f func(ctx context.Context) error) error {
	return s.ensure(ctx, "make it", f)
}

// CreateReplicated creates a stream with three replicas by create, on a cluster that has reported too few servers for
// the given time.
func CreateReplicated(answered time.Duration, create func(copies int) error) error {
	s := &Store{config: Config{Replicas: 3}}
	s.fewServers.since = time.Now().Add(-answered)
	return s.createReplicated(create)
}

// SetDiskFree replaces the probe of the disk's free space.
func (s *Store) SetDiskFree(f func() (int64, error)) { s.diskFree = f }
