package cluster

import (
	"sync"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/internal/jobspans"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// demands holds the demand of the readers of all daemons: of this daemon's follower, and of the other daemons from
// their heartbeats.
type demands struct {
	view     *planview.View
	onChange func(state.Demand) // receives the demand of all daemons when it may have changed; called with mu held

	mu      sync.Mutex
	local   state.Demand // of this process's follower
	daemons map[string]*peer
	// departed holds the jobs of daemons that stopped or timed out. Such a job retains its documents until it reads from
	// another daemon.
	departed *jobspans.Tracker
}

// peer is another daemon of the run.
type peer struct {
	address       string
	demand        state.Demand
	lastHeartbeat time.Time
}

func newDemands(o backend.Options, v *planview.View, out func(state.Demand)) *demands {
	return &demands{view: v, onChange: out, local: state.NewDemand(), daemons: map[string]*peer{},
		departed: jobspans.New(o)}
}

// setLocal replaces the demand of this daemon's readers.
func (d *demands) setLocal(x state.Demand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.local = x
	d.onChange(d.totalDemandLocked())
}

// localDemand returns the demand of this daemon's readers.
func (d *demands) localDemand() state.Demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.local
}

// receive replaces the demand of another daemon, on receipt of its heartbeat. It ignores a new daemon once maxDaemons
// are registered.
func (d *demands) receive(id, flight string, x state.Demand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.daemons[id] != nil || len(d.daemons) < maxDaemons {
		d.daemons[id] = &peer{flight, x, time.Now()}
	}
	d.onChange(d.totalDemandLocked())
}

// removeDaemon removes another daemon, except for the documents that its jobs retain.
func (d *demands) removeDaemon(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.departLocked(id)
	d.onChange(d.totalDemandLocked())
}

// refresh publishes the demand again, because the heartbeats of daemons may have timed out since.
func (d *demands) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onChange(d.totalDemandLocked())
}

// totalDemand returns the combined demand of this daemon and of all daemons with a heartbeat within
// state.HeartbeatTimeout.
func (d *demands) totalDemand() state.Demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.totalDemandLocked()
}

// peerCount returns the number of other daemons that have sent a heartbeat recently.
func (d *demands) peerCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.daemons)
}

// addresses returns the addresses at which readers reach the other daemons.
func (d *demands) addresses() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.daemons {
		if time.Since(x.lastHeartbeat) <= state.HeartbeatTimeout && x.address != "" {
			out = append(out, x.address)
		}
	}
	return out
}

// totalDemandLocked returns what all returns. The caller holds mu.
func (d *demands) totalDemandLocked() state.Demand {
	out := state.NewDemand()
	out.Merge(d.local)
	for id, x := range d.daemons {
		if time.Since(x.lastHeartbeat) > state.HeartbeatTimeout {
			d.departLocked(id)
			continue
		}
		out.Merge(x.demand)
	}
	if now := time.Now(); len(d.departed.ByJob) > 0 {
		out.Merge(state.Demand{Jobs: d.departed.AddTo(nil, now), Needed: state.NoStep})
	}
	return out
}

// departLocked removes another daemon, except for the documents that its jobs retain. The caller holds mu.
func (d *demands) departLocked(id string) {
	x := d.daemons[id]
	if x == nil {
		return
	}
	delete(d.daemons, id)
	now, commits := time.Now(), d.view.Snapshot().Commits
	for job, j := range x.demand.Jobs {
		d.departed.Open(job, j.RetainFrom, j.Sent, now)
		d.departed.Close(job, commits, now)
	}
}
