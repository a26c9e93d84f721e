package arrowout

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"loaderd/loader/fault"
)

const (
	// rejectsPerSecond is how many calls per host are refused immediately, beyond a burst. The answer to further calls
	// is delayed by rejectDelay. A client that calls repeatedly whatever the answer is must not take the processors from
	// readers.
	rejectsPerSecond = 20
	rejectsBurst     = 100
	rejectDelay      = time.Second
	// maxDelayedRejects bounds the delayed calls of all hosts. Beyond it calls are refused immediately, because no room
	// for them is left.
	maxDelayedRejects = 4096
	// maxRejectedHosts is the number of hosts that are remembered.
	maxRejectedHosts = 4096
)

// rejectBackoff delays the answers to hosts that are refused often.
type rejectBackoff struct {
	mu      sync.Mutex
	byHost  map[string]*rate.Limiter // by host
	delayed int
}

// isDelayedReason reports whether calls refused for a reason are delayed: the caller causes these reasons.
func isDelayedReason(reason string) bool {
	switch fault.Reason(reason) {
	case fault.InvalidToken, fault.Forbidden, fault.Limited:
		return true
	}
	return false
}

// delay returns when the refusal may be sent to the address.
func (r *rejectBackoff) delay(ctx context.Context, address string) {
	pause := r.countReject(address)
	if pause == 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.delayed--
	r.mu.Unlock()
}

// countReject counts a refusal and returns its delay. A delayed call counts until wait has ended.
func (r *rejectBackoff) countReject(address string) time.Duration {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.byHost[host]
	if of == nil {
		if r.byHost == nil || len(r.byHost) >= maxRejectedHosts {
			r.byHost = map[string]*rate.Limiter{}
		}
		of = rate.NewLimiter(rejectsPerSecond, rejectsBurst)
		r.byHost[host] = of
	}
	if of.Allow() || r.delayed >= maxDelayedRejects {
		return 0
	}
	r.delayed++
	return rejectDelay
}
