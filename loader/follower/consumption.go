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

// AwaitRoom waits until the client has consumed enough of the steps sent to it, so that at most a window of unconsumed
// steps is sent. It returns immediately for a client that does not report.
func (r *Reader) AwaitRoom(ctx context.Context) error {
	for {
		if r.hasRoom() {
			return nil
		}
		select {
		case <-r.roomSignal:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *Reader) hasRoom() bool {
	f := r.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.client.Session == "" || r.next < r.client.Delivered+uint64(sendWindow(f.options, r.rate))
}

// recordConsumed records how many steps the client has consumed, limited to the steps sent to it. The caller holds the
// follower's mu.
func (r *Reader) recordConsumed(taken uint64) {
	if taken = min(taken, r.next); taken > r.client.Delivered {
		r.client.Delivered = taken
		waiting.Signal(r.roomSignal)
	}
	r.rate.measure(time.Now(), r.client.Delivered)
}

// RecordConsumption records a report of the client that reads at a place, from this daemon or another one.
func (f *Follower) RecordConsumption(place state.RankID, c state.Consumption) state.ConsumptionResponse {
	place.Job = place.JobName()
	f.mu.Lock()
	sent, rate := uint64(0), consumptionRate{}
	for _, x := range f.readers.byPlace[place] {
		if x.client.Session == c.Session {
			x.recordConsumed(c.Delivered)
			sent, rate = max(sent, x.next), x.rate
		}
	}
	if sent == 0 {
		f.recordResumed(place.Job, c.Delivered)
	}
	f.mu.Unlock()
	if sent > 0 {
		c.Delivered = min(c.Delivered, sent)
	}
	return state.ConsumptionResponse{Known: f.Ranks.Report(place, c, f.plan.PlannedSteps()),
		Window: sendWindow(f.options, rate),
		Alert:  f.rankAlert(ranks.CensusID(place).Key)}
}

// updateRanks evaluates the ranks again, and passes reports that other daemons received to the readers here.
func (f *Follower) updateRanks() {
	sent := map[state.RankID]uint64{}
	f.mu.Lock()
	for _, x := range f.readers.all() {
		sent[x.place] = max(sent[x.place], x.next)
	}
	f.mu.Unlock()
	now := f.plan.Snapshot()
	view := f.Ranks.Evaluate(sent, now.Commits, now.WorldSizes)
	f.sendRetained()
	f.dropConflicting()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range view.Jobs {
		for _, r := range j.Ranks {
			for _, x := range f.readers.byPlace[ranks.RankIDOf(r.ProcessID)] {
				if x.client.Session != "" {
					x.recordConsumed(r.Delivered)
				}
			}
		}
	}
}
