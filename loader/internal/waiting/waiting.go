package waiting

import (
	"context"
	"time"
)

// Signal sends to a channel of capacity one without blocking. It does nothing if a value is already pending.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sleep waits for d. It returns the error of ctx if ctx is done before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
