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
	plan *planview.View
	out  func(state.Demand) // receives the demand of all daemons when it may have changed; called with mu held

	mu      sync.Mutex
	own     state.Demand // of this process's follower
	daemons map[string]*daemon
	// departed holds the jobs of daemons that stopped or timed out. Such a job retains its documents until it reads from
	// another daemon.
	departed *jobspans.Spans
}

// daemon is another daemon of the run.
type daemon struct {
	flight string
	demand state.Demand
	heard  time.Time
}

func newDemands(o backend.Options, v *planview.View, out func(state.Demand)) *demands {
	return &demands{plan: v, out: out, own: state.NewDemand(), daemons: map[string]*daemon{}, departed: jobspans.New(o)}
}

// setOwn replaces the demand of this daemon's readers.
func (d *demands) setOwn(x state.Demand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own = x
	d.out(d.sum())
}

// readers returns the demand of this daemon's readers.
func (d *demands) readers() state.Demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own
}

// receive replaces the demand of another daemon, on receipt of its heartbeat. It ignores a new daemon once maxDaemons
// are registered.
func (d *demands) receive(id, flight string, x state.Demand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.daemons[id] != nil || len(d.daemons) < maxDaemons {
		d.daemons[id] = &daemon{flight, x, time.Now()}
	}
	d.out(d.sum())
}

// stopped removes another daemon, except for the documents that its jobs retain.
func (d *demands) stopped(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.depart(id)
	d.out(d.sum())
}

// refresh publishes the demand again, because the heartbeats of daemons may have timed out since.
func (d *demands) refresh() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out(d.sum())
}

// all returns the combined demand of this daemon and of all daemons with a heartbeat within state.HeartbeatTimeout.
func (d *demands) all() state.Demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sum()
}

// others returns the number of other daemons that have sent a heartbeat recently.
func (d *demands) others() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.daemons)
}

// flights returns the addresses at which readers reach the other daemons.
func (d *demands) flights() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.daemons {
		if time.Since(x.heard) <= state.HeartbeatTimeout && x.flight != "" {
			out = append(out, x.flight)
		}
	}
	return out
}

// sum returns what all returns. The caller holds mu.
func (d *demands) sum() state.Demand {
	out := state.NewDemand()
	out.Join(d.own)
	for id, x := range d.daemons {
		if time.Since(x.heard) > state.HeartbeatTimeout {
			d.depart(id)
			continue
		}
		out.Join(x.demand)
	}
	if now := time.Now(); len(d.departed.Of) > 0 {
		out.Join(state.Demand{Jobs: d.departed.AddTo(nil, now), Needed: state.EveryStep})
	}
	return out
}

// depart removes another daemon, except for the documents that its jobs retain. The caller holds mu.
func (d *demands) depart(id string) {
	x := d.daemons[id]
	if x == nil {
		return
	}
	delete(d.daemons, id)
	now, keepers := time.Now(), d.plan.Now().Keepers
	for job, j := range x.demand.Jobs {
		d.departed.Open(job, j.From, j.Sent, now)
		d.departed.Close(job, keepers, now)
	}
}
