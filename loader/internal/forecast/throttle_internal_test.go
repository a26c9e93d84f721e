package forecast

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/state"
)

// Throttled work uses a twentieth of the time while a rank reads. It uses all of it while none reads or a measurement
// was requested.
func TestThrottle_UsesTwentiethOfTimeWhileRankReads(t *testing.T) {
	reads := state.Demand{Needed: 7}
	for name, c := range map[string]struct {
		demand state.Demand
		asked  bool
		leaves time.Duration // of the rank
		work   time.Duration
		rest   time.Duration
	}{
		"no reader":          {demand: state.NewDemand(), work: time.Second},
		"a rank reads":       {demand: reads, work: 20 * time.Millisecond, rest: 380 * time.Millisecond},
		"it took long":       {demand: reads, work: time.Minute, rest: maxThrottleSleep},
		"somebody has asked": {demand: reads, asked: true, work: time.Second},
		"the rank leaves": {demand: reads, leaves: 450 * time.Millisecond, work: time.Second,
			rest: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := &readRun{demand: c.demand}
				a := throttle{e: &Estimator{run: run, measureRequested: c.asked}}
				a.startWork()
				time.Sleep(c.work)
				if c.leaves > 0 {
					time.AfterFunc(c.leaves, run.leave)
				}
				for _, want := range []time.Duration{c.rest, 0} { // a second rest without work in between does not sleep
					began := time.Now()
					if err := a.sleep(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := time.Since(began); got != want {
						t.Errorf("it rests %v, want %v", got, want)
					}
				}
			})
		})
	}
}

// readRun is a run that ranks read.
type readRun struct {
	Run
	mu     sync.Mutex
	demand state.Demand
}

// HasReaders implements Run.
func (r *readRun) HasReaders() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.demand.Needed != state.NoStep
}

func (r *readRun) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.demand = state.NewDemand()
}
