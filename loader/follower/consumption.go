package follower

import (
	"context"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/internal/ranks"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/state"
)

const (
	// minWindow is the minimum window, so that the round trip of its reports does not slow down a reporting client.
	minWindow = 8
	// windowTime is the duration of a fast trainer's window. A client reports twice per window.
	windowTime = 500 * time.Millisecond
)

// consumptionRate is the rate at which a trainer consumes steps, measured over at least half of windowTime.
type consumptionRate struct {
	since time.Time
	taken uint64 // at that time
	steps int    // steps per windowTime, as measured before since
}

// measure updates the rate if enough time has passed.
func (r *consumptionRate) measure(now time.Time, taken uint64) {
	if over := now.Sub(r.since); over >= windowTime/2 {
		*r = consumptionRate{since: now, taken: taken,
			steps: int(float64(taken-r.taken) * float64(windowTime) / float64(over))}
	}
}

// sendWindow returns the number of steps that are sent to a reporting rank beyond those that its trainer has
// consumed: Ahead, or as many as it consumes in windowTime.
func sendWindow(o backend.Options, rate consumptionRate) int {
	return max(o.Ahead, minWindow, rate.steps)
}

// Room waits until the client has consumed enough of the steps sent to it, so that at most a window of unconsumed
// steps is sent. It returns immediately for a client that does not report.
func (r *Reader) Room(ctx context.Context) error {
	for {
		if r.hasRoom() {
			return nil
		}
		select {
		case <-r.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *Reader) hasRoom() bool {
	f := r.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.client.Session == "" || r.next < r.client.Taken+uint64(sendWindow(f.options, r.rate))
}

// consume records how many steps the client has consumed, limited to the steps sent to it. The caller holds the
// follower's mu.
func (r *Reader) consume(taken uint64) {
	if taken = min(taken, r.next); taken > r.client.Taken {
		r.client.Taken = taken
		waiting.Signal(r.room)
	}
	r.rate.measure(time.Now(), r.client.Taken)
}

// Consumed records a report of the client that reads at a place, from this daemon or another one.
func (f *Follower) Consumed(place state.Place, c state.Consumption) state.Receipt {
	place.Job = place.JobName()
	f.mu.Lock()
	sent, rate := uint64(0), consumptionRate{}
	for _, x := range f.readers.byPlace[place] {
		if x.client.Session == c.Session {
			x.consume(c.Taken)
			sent, rate = max(sent, x.next), x.rate
		}
	}
	if sent == 0 {
		f.resumes(place.Job, c.Taken)
	}
	f.mu.Unlock()
	if sent > 0 {
		c.Taken = min(c.Taken, sent)
	}
	return state.Receipt{Known: f.Ranks.Report(place, c, f.plan.Planned()), Window: sendWindow(f.options, rate),
		Alert: f.alert(ranks.IdOf(place).Key)}
}

// muster evaluates the ranks again, and passes reports that other daemons received to the readers here.
func (f *Follower) muster() {
	sent := map[state.Place]uint64{}
	f.mu.Lock()
	for _, x := range f.readers.all() {
		sent[x.place] = max(sent[x.place], x.next)
	}
	f.mu.Unlock()
	view := f.Ranks.Look(sent, f.plan.Now().Keepers)
	f.retain()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range view.Jobs {
		for _, r := range j.Ranks {
			for _, x := range f.readers.byPlace[ranks.PlaceOf(r.ID)] {
				if x.client.Session != "" {
					x.consume(r.Taken)
				}
			}
		}
	}
}
