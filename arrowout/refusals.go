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
	// refusedPerSecond is how many calls per host are refused immediately, beyond a burst. The answer to further calls
	// is delayed by refusalWait. A client that calls repeatedly whatever the answer is must not take the processors from
	// readers.
	refusedPerSecond = 20
	refusedBurst     = 100
	refusalWait      = time.Second
	// refusalsWaiting bounds the delayed calls of all hosts. Beyond it calls are refused immediately, because no room
	// for them is left.
	refusalsWaiting = 4096
	// refusedHosts is the number of hosts that are remembered.
	refusedHosts = 4096
)

// refusals delays the answers to hosts that are refused often.
type refusals struct {
	mu      sync.Mutex
	of      map[string]*rate.Limiter // by host
	waiting int
}

// slows reports whether calls refused for a reason are delayed: the caller causes these reasons.
func slows(reason string) bool {
	switch fault.Reason(reason) {
	case fault.BadToken, fault.Forbidden, fault.Limited:
		return true
	}
	return false
}

// wait returns when the refusal may be sent to the address.
func (r *refusals) wait(ctx context.Context, address string) {
	pause := r.begin(address)
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
	r.waiting--
	r.mu.Unlock()
}

// begin counts a refusal and returns its delay. A delayed call counts until wait has ended.
func (r *refusals) begin(address string) time.Duration {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[host]
	if of == nil {
		if r.of == nil || len(r.of) >= refusedHosts {
			r.of = map[string]*rate.Limiter{}
		}
		of = rate.NewLimiter(refusedPerSecond, refusedBurst)
		r.of[host] = of
	}
	if of.Allow() || r.waiting >= refusalsWaiting {
		return 0
	}
	r.waiting++
	return refusalWait
}
