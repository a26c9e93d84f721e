package server

import (
	"fmt"
	"sync"
	"time"

	"loaderd/internal/humanize"
)

const (
	// healthFor is how long a result is cached, because a check inspects every stream.
	healthFor = time.Second
	// healthWait is how long recent waits for a check before it returns the previous result.
	healthWait = time.Second
	// hungAfter is the duration after which a check counts as failed. An fsync of a slow disk takes up to a second.
	hungAfter = 5 * time.Second
)

// health runs the health checks of a server, one at a time, in separate goroutines: a check hangs with the disk, and
// its callers must not.
type health struct {
	check func() error

	mu     sync.Mutex
	latest *checkup // nil before the first check
	err    error    // of the last completed check
}

// checkup is a health check that is running or complete.
type checkup struct {
	began time.Time
	done  chan struct{} // closed at the end of the check
	err   error         // readable once done is closed
}

// recent returns the result of a check that is at most healthFor old. While a check takes longer than healthWait, it
// returns the previous result; after hungAfter an error.
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

// fresh returns the result of a check that starts now, or an error if a check takes hungAfter.
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

// since returns the check that is running or that started at t or later; otherwise it starts one.
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

// ended reports whether a check is complete, and waits for that at most for the duration wait.
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
		humanize.Time(time.Since(c.began)))
}
