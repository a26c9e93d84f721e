package cluster

import (
	"sync"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// remoteLeader is the state of the leader in another process, as reported by its heartbeats.
type remoteLeader struct {
	plan *planview.View

	mu          sync.Mutex
	pages       reportPages  // of its next report
	last        state.Report // its last report
	received    time.Time    // when last was received
	any         bool         // a report was received since this process led
	reports     uint64       // number of reports received
	oldest      uint64       // oldest readable step according to its heartbeats; 0 once processed
	unconfirmed unconfirmedLeader
}

// unconfirmedLeader is a daemon that claims to lead in its last heartbeat, but does not lead according to the plan as
// read so far. It may hold the next term, in a record that this process has not read yet.
type unconfirmedLeader struct {
	daemon   string
	received time.Time
}

func newRemoteLeader(v *planview.View) *remoteLeader {
	return &remoteLeader{plan: v, received: time.Now()}
}

// receivePage stores a page of the leader's next report. It ignores pages of other daemons.
func (r *remoteLeader) receivePage(daemon string, p *sourcePage) {
	if !r.plan.LedBy(daemon) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages.add(p)
}

// receive processes the heartbeat of a daemon that claims to lead.
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

// succeed starts with the last report of this process's leader, which no longer leads. The next leader's plan may be
// longer.
func (r *remoteLeader) succeed(last state.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.received, r.any = last, time.Now(), false
}

// report returns the last report. If the leader's heartbeats have timed out, it includes own, because that explains
// the cause.
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

// flight returns the address at which readers reach the leader; empty if its heartbeats have timed out.
func (r *remoteLeader) flight() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.received) > state.HeartbeatTimeout {
		return ""
	}
	return r.last.Flight
}

// length returns the run's length according to the last report.
func (r *remoteLeader) length() *state.Length {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.Length == nil {
		return nil
	}
	out := *r.last.Length
	return &out
}

// takeOldest returns the oldest readable step according to the heartbeats since the last call; 0 if none arrived.
func (r *remoteLeader) takeOldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.oldest
	r.oldest = 0
	return out
}
