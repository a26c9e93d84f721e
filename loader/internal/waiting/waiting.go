package waiting

import (
	"context"
	"time"
)

// Signal puts a value into a channel that has room for one, unless one is there already.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Pause waits for a time, or returns the error of ctx when that is done before.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
