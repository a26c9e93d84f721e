package cluster

import (
	"sync"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// remoteLeader is the leader in another process, as far as its heartbeats describe it.
type remoteLeader struct {
	plan *planview.View

	mu          sync.Mutex
	pages       reportPages  // of its next report
	last        state.Report // its last report ...
	received    time.Time    // ... and when that was received
	any         bool         // there has been a report since this process led
	reports     uint64       // number of reports received
	oldest      uint64       // first step that can be read, by its heartbeats; 0 when that has been checked
	unconfirmed unconfirmedLeader
}

// unconfirmedLeader is a daemon that leads by its last heartbeat, and not by the plan as far as it is known here. It
// may have the next term; then the plan is longer than is known here.
type unconfirmedLeader struct {
	daemon   string
	received time.Time
}

func newRemoteLeader(v *planview.View) *remoteLeader {
	return &remoteLeader{plan: v, received: time.Now()}
}

// receivePage takes in a page of the next report of a daemon.
func (r *remoteLeader) receivePage(daemon string, p *sourcePage) {
	if !r.plan.LedBy(daemon) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages.add(p)
}

// receive takes in the heartbeat of a daemon that leads by its own account.
func (r *remoteLeader) receive(h heartbeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.plan.LedBy(h.Daemon) {
		r.unconfirmed = unconfirmedLeader{h.Daemon, time.Now()}
		return
	}
	r.last, r.received, r.any, r.reports = r.pages.join(*h.Lead, r.last), time.Now(), true, r.reports+1
	r.last.Flight = h.Flight
	r.oldest = max(r.oldest, h.Oldest)
	if !h.Lead.Replays {
		r.plan.Confirm(h.At)
	}
}

// succeed begins with the last report of the leader of this process, which no longer leads: whoever leads next may be
// further.
func (r *remoteLeader) succeed(last state.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.received, r.any = last, time.Now(), false
}

// report returns the last report. Its connection is own where the leader is silent: that explains why.
func (r *remoteLeader) report(own *backend.Connection) state.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.last
	out.Elsewhere, out.Silent = true, time.Since(r.received)
	if out.Silent >= state.HeartbeatTimeout {
		out.Connection = own
	}
	contested := time.Since(r.unconfirmed.received) < state.HeartbeatTimeout && !r.plan.LedBy(r.unconfirmed.daemon)
	out.Unheard = !r.any || out.Silent >= state.HeartbeatTimeout || contested
	return out
}

// count returns the number of reports received.
func (r *remoteLeader) count() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports
}

// flight returns where readers find the leader; empty where it is silent.
func (r *remoteLeader) flight() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.received) > state.HeartbeatTimeout {
		return ""
	}
	return r.last.Flight
}

// length returns how long the run will be, by the last report.
func (r *remoteLeader) length() *state.Length {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.Length == nil {
		return nil
	}
	out := *r.last.Length
	return &out
}

// takeOldest returns from which step on steps can be read, by the heartbeats since the last call; 0 where there was
// none.
func (r *remoteLeader) takeOldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.oldest
	r.oldest = 0
	return out
}
