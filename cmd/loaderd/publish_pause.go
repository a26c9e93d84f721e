package main

import (
	"context"
	"sync/atomic"
	"time"

	"loaderd/stream"
)

// pauseLimit is how long the documents of an unfinished batch wait for more when the input pauses.
const pauseLimit = 250 * time.Millisecond

// pauses lets unfinished batches leave while the input pauses.
type pauses struct{ offered atomic.Int64 }

// watch runs until the returned function is called.
func (s *pauses) watch(ctx context.Context, p *stream.Publisher) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(pauseLimit)
		defer tick.Stop()
		var seen, flushed int64
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := s.offered.Load()
			if now == seen && now > flushed {
				if _, err := p.Flush(ctx); err != nil {
					return // the next document, or the last flush, says why
				}
				flushed = now
			}
			seen = now
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
