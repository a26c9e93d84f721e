package server

import (
	"fmt"
	"sync"
	"time"

	"loaderd/internal/humanize"
)

const (
	// healthCacheTime is how long a result is cached, because a check inspects every stream.
	healthCacheTime = time.Second
	// healthTimeout is how long recent waits for a check before it returns the previous result.
	healthTimeout = time.Second
	// hungTimeout is the duration after which a check counts as failed. An fsync of a slow disk takes up to a second.
	hungTimeout = 5 * time.Second
)

// health runs the health checks of a server, one at a time, in separate goroutines: a check hangs with the disk, and
// its callers must not.
type health struct {
	check func() error

	mu     sync.Mutex
	latest *healthCheck // nil before the first check
	err    error        // of the last completed check
}

// healthCheck is a health check that is running or complete.
type healthCheck struct {
	began time.Time
	done  chan struct{} // closed at the end of the check
	err   error         // readable once done is closed
}

// recentResult returns the result of a check that is at most healthCacheTime old. While a check takes longer than
// healthTimeout, it returns the previous result; after hungTimeout an error.
func (h *health) recentResult() error {
	c := h.startCheck(time.Now().Add(-healthCacheTime))
	if c.awaitEnd(healthTimeout) {
		return c.err
	}
	if time.Since(c.began) >= hungTimeout {
		return c.hungError()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// freshResult returns the result of a check that starts now, or an error if a check takes hungTimeout.
func (h *health) freshResult() error {
	now := time.Now()
	for {
		c := h.startCheck(now)
		if !c.awaitEnd(hungTimeout - time.Since(c.began)) {
			return c.hungError()
		}
		if !c.began.Before(now) {
			return c.err
		}
	}
}

// startCheck returns the check that is running or that started at t or later; otherwise it starts one.
func (h *health) startCheck(t time.Time) *healthCheck {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.latest; c != nil && (!c.began.Before(t) || !c.awaitEnd(0)) {
		return c
	}
	c := &healthCheck{began: time.Now(), done: make(chan struct{})}
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

// awaitEnd reports whether a check is complete, and waits for that at most for the duration wait.
func (c *healthCheck) awaitEnd(wait time.Duration) bool {
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

func (c *healthCheck) hungError() error {
	return fmt.Errorf("embedded NATS server: the health check has not answered for %s: look for a disk that hangs",
		humanize.Time(time.Since(c.began)))
}
