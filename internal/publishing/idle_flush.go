package publishing

import (
	"context"
	"time"
)

// idleFlushDelay is how long the documents of an unfinished batch wait for further ones when the input pauses.
const idleFlushDelay = 250 * time.Millisecond

// flushWhenIdle flushes unfinished batches while the input pauses, until stop is called.
func (p *Session) flushWhenIdle(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(idleFlushDelay)
		defer tick.Stop()
		var seen, flushed int64
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := p.offered.Load()
			if now == seen && now > flushed {
				if _, err := p.publisher.Flush(ctx); err != nil {
					return // the next document, or the last flush, returns the cause
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
