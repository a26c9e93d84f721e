package loader

import (
	"context"
	"time"
)

// Consumption is a client's report of the steps that its trainer has taken from it. It decides when the next steps are sent, and is no
// part of the plan.
type Consumption struct {
	Taken   uint64        // steps handed to the trainer: the index of the next one
	Waiting bool          // the trainer waits for that step; else it holds the one before
	Still   time.Duration // since Taken or Waiting changed
	Left    bool          // the client was closed on purpose
}

// Receipt answers a Consumption.
type Receipt struct {
	Known  bool // the rank has a stream, or had one
	Window int  // steps that the rank is sent beyond those taken
}

// minWindow is the least window, so that a reporting client is not slowed by the round trip of its reports.
const minWindow = 8

// window returns how many steps a reporting rank is sent beyond those that its trainer has taken.
func (o Options) window() int { return max(o.Ahead, minWindow) }

// Report declares that the client of the reader reports its consumption, and had taken so many steps when it opened the stream. Call it
// before Room.
func (r *Reader) Report(taken uint64) {
	f := r.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	r.reports, r.taken = true, min(taken, r.next)
}

// Room waits until the client has taken enough of what it was sent: at most a window of steps is sent beyond that. Without Report it
// returns at once.
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
	return !r.reports || r.next < r.taken+uint64(f.options.window())
}

// consume records a report for the reader. The caller holds the follower's mu.
func (r *Reader) consume(c Consumption) {
	r.taken = max(r.taken, min(c.Taken, r.next)) // a client cannot have taken what it was not sent
	signal(r.room)
}

// Consumed records a report of the client that reads at a place, on this daemon or another one.
func (r *Run) Consumed(place Place, c Consumption) Receipt {
	f := r.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Receipt{Window: f.options.window()}
	for _, x := range f.readers.all() {
		if x.reports && x.place == place {
			x.consume(c)
			out.Known = true
		}
	}
	return out
}
