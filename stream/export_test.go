package stream

import "context"

// Make calls f as those do who make streams and buckets.
func (s *Store) Make(ctx context.Context, f func(ctx context.Context) error) error {
	return s.ensure(ctx, "make it", f)
}
