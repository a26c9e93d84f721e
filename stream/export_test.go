package stream

import (
	"context"
	"time"
)

// Make calls f as those do who make streams and buckets.
func (s *Store) Make(ctx context.Context, f func(ctx context.Context) error) error {
	return s.ensure(ctx, "make it", f)
}

// Copied makes a stream with three copies by create, on a cluster that has answered for a while that it has too few
// servers.
func Copied(answered time.Duration, create func(copies int) error) error {
	s := &Store{config: Config{Replicas: 3}}
	s.few.since = time.Now().Add(-answered)
	return s.copied(create)
}

// SetDiskFree replaces the probe of the disk's free space.
func (s *Store) SetDiskFree(f func() (int64, error)) { s.diskFree = f }
