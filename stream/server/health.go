package server

import (
	"fmt"
	"sync"
	"time"

	"loaderd/internal/quantity"
)

const (
	// healthFor is for how long a result holds: the server looks at each of its streams.
	healthFor = time.Second
	// healthWait is how long recent waits for a check before it returns the result of the one before.
	healthWait = time.Second
	// hungAfter is how long a check may take until it counts as failed. An fsync of a slow disk takes up to a second.
	hungAfter = 5 * time.Second
)

// health runs the health checks of a server, one at a time, in separate goroutines: a check hangs with the disk,
// and its callers must not.
type health struct {
	check func() error

	mu     sync.Mutex
	latest *checkup // nil before the first one
	err    error    // of the last one that has ended
}

// checkup is a health check that runs or has ended.
type checkup struct {
	began time.Time
	done  chan struct{} // closed at the end
	err   error         // read when done is closed
}

// recent returns the result of a check that is at most healthFor old. While one takes longer than healthWait, it
// returns the result before; after hungAfter an error.
func (h *health) recent() error {
	c := h.since(time.Now().Add(-healthFor))
	if c.ended(healthWait) {
		return c.err
	}
	if time.Since(c.began) >= hungAfter {
		return c.hung()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// fresh returns the result of a check that begins now, or an error when one has taken hungAfter.
func (h *health) fresh() error {
	now := time.Now()
	for {
		c := h.since(now)
		if !c.ended(hungAfter - time.Since(c.began)) {
			return c.hung()
		}
		if !c.began.Before(now) {
			return c.err
		}
	}
}

// since returns the check that is under way or began at a time or later; else it begins one.
func (h *health) since(t time.Time) *checkup {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.latest; c != nil && (!c.began.Before(t) || !c.ended(0)) {
		return c
	}
	c := &checkup{began: time.Now(), done: make(chan struct{})}
	h.latest = c
	go func() {
		defer close(c.done)
		err := h.check()
		h.mu.Lock()
		defer h.mu.Unlock()
		c.err, h.err = err, err
	}()
	return c
}

// ended reports whether a check has ended, and waits at most for a time until it has.
func (c *checkup) ended(wait time.Duration) bool {
	select {
	case <-c.done:
		return true
	default:
	}
	if wait <= 0 {
		return false
	}
	select {
	case <-c.done:
		return true
	case <-time.After(wait):
		return false
	}
}

func (c *checkup) hung() error {
	return fmt.Errorf("embedded NATS server: the health check has not answered for %s: look for a disk that hangs",
		quantity.Time(time.Since(c.began)))
}
