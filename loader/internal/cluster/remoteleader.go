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
	view *planview.View

	mu          sync.Mutex
	pages       reportPages  // of its next report
	lastReport  state.Report // its last report
	received    time.Time    // when last was received
	hasReport   bool         // a report was received since this process led
	reports     uint64       // number of reports received
	oldestStep  uint64       // oldest readable step according to its heartbeats; 0 once processed
	unconfirmed unconfirmedLeader
}

// unconfirmedLeader is a daemon that claims to lead in its last heartbeat, but does not lead according to the plan as
// read so far. It may hold the next term, in a record that this process has not read yet.
type unconfirmedLeader struct {
	daemon   string
	received time.Time
}

func newRemoteLeader(v *planview.View) *remoteLeader {
	return &remoteLeader{view: v, received: time.Now()}
}

// receivePage stores a page of the leader's next report. It ignores pages of other daemons.
func (r *remoteLeader) receivePage(daemon string, p *sourcePage) {
	if !r.view.IsLeader(daemon) {
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
	if !r.view.IsLeader(h.Daemon) {
		r.unconfirmed = unconfirmedLeader{h.Daemon, time.Now()}
		return
	}
	r.lastReport, r.received, r.hasReport, r.reports = r.pages.joinReport(*h.Report, r.lastReport), time.Now(), true,
		r.reports+1
	r.lastReport.FlightAddress = h.Address
	r.oldestStep = max(r.oldestStep, h.OldestStep)
	if !h.Report.Replaying {
		r.view.ConfirmPosition(h.PlanPosition)
	}
}

// startFrom starts with the last report of this process's leader, which no longer leads. The next leader's plan may be
// longer.
func (r *remoteLeader) startFrom(last state.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastReport, r.received, r.hasReport = last, time.Now(), false
}

// report returns the last report. If the leader's heartbeats have timed out, it includes own, because that explains
// the cause.
func (r *remoteLeader) report(own *backend.Connection) state.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.lastReport
	out.Remote, out.Age = true, time.Since(r.received)
	if out.Age >= state.HeartbeatTimeout {
		out.Connection = own
	}
	contested := time.Since(r.unconfirmed.received) < state.HeartbeatTimeout && !r.view.IsLeader(r.unconfirmed.daemon)
	out.LeaderUnknown = !r.hasReport || out.Age >= state.HeartbeatTimeout || contested
	return out
}

// reportCount returns the number of reports received.
func (r *remoteLeader) reportCount() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports
}

// address returns the address at which readers reach the leader; empty if its heartbeats have timed out.
func (r *remoteLeader) address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.received) > state.HeartbeatTimeout {
		return ""
	}
	return r.lastReport.FlightAddress
}

// isPresent reports whether a report of the leader was received recently.
func (r *remoteLeader) isPresent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hasReport && time.Since(r.received) < state.HeartbeatTimeout
}

// length returns the run's length according to the last report.
func (r *remoteLeader) length() *state.Length {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastReport.Length == nil {
		return nil
	}
	out := *r.lastReport.Length
	return &out
}

// takeOldest returns the oldest readable step according to the heartbeats since the last call; 0 if none arrived.
func (r *remoteLeader) takeOldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.oldestStep
	r.oldestStep = 0
	return out
}
