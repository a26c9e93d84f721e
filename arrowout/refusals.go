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
	// refusedPerSecond is how many calls of one host are refused at once, beyond a burst. Those behind them wait for their
	// answer, refusalWait at most: who calls again and again, whatever the answer is, must not take the processors from
	// those who read.
	refusedPerSecond = 20
	refusedBurst     = 100
	refusalWait      = time.Second
	// refusalsWaiting is how many wait at the same time, of all hosts; more are answered at once, as there is no room for
	// them.
	refusalsWaiting = 4096
	// refusedHosts is how many hosts are remembered.
	refusedHosts = 4096
)

// refusals has those wait who are refused often.
type refusals struct {
	mu      sync.Mutex
	of      map[string]*rate.Limiter // by host
	waiting int
}

// slows says whether a reason is one that callers bring upon themselves.
func slows(reason string) bool {
	switch fault.Reason(reason) {
	case fault.BadToken, fault.Forbidden, fault.Limited:
		return true
	}
	return false
}

// wait returns when a call from an address may be told that it is refused.
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

// begin counts a refusal, and returns for how long it waits; one that waits counts until wait has ended.
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
