package loader

import (
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/state"
)

// Work that nobody waits for takes a twentieth of the time while a rank reads, and all of it while none does or somebody has asked for what it finds out.
func TestWorkAsideRests(t *testing.T) {
	reads := state.Demand{Needed: 7}
	for name, c := range map[string]struct {
		demand state.Demand
		asked  bool
		leaves time.Duration // of the rank
		work   time.Duration
		rest   time.Duration
	}{
		"nobody reads":       {demand: state.NewDemand(), work: time.Second},
		"a rank reads":       {demand: reads, work: 20 * time.Millisecond, rest: 380 * time.Millisecond},
		"it took long":       {demand: reads, work: time.Minute, rest: asideRest},
		"somebody has asked": {demand: reads, asked: true, work: time.Second},
		"the rank leaves":    {demand: reads, leaves: 450 * time.Millisecond, work: time.Second, rest: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leader{demand: c.demand}
				l.long.asked = c.asked
				a := aside{leader: l}
				a.begin()
				time.Sleep(c.work)
				if c.leaves > 0 {
					time.AfterFunc(c.leaves, func() { l.update(func() { l.demand = state.NewDemand() }) })
				}
				for _, want := range []time.Duration{c.rest, 0} { // at once again there is no work to rest from
					began := time.Now()
					if err := a.rest(t.Context()); err != nil {
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
