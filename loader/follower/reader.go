package follower

import (
	"context"
	"io"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/internal/jobspans"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// Reader is one rank's place in the plan. Use it from one goroutine; Close it to stop holding the plan back.
type Reader struct {
	follower *Follower
	place    state.Place
	// Under the follower's mu:
	from   uint64       // first step
	next   uint64       // step that is asked for next
	reads  uint64       // first step whose rows may be asked for: the one that Next returned last
	turn   uint64       // step from which on another window is read ahead
	left   bool         // closed, or dropped
	idle   time.Time    // since when it has had its step and not asked for the next one; zero while it asks
	gone   *fault.Error // why it was dropped; nil else
	at     [orders]int  // where it stands among the follower's readers
	client state.Client
	span   *jobspans.Span  // of its job
	rate   consumptionRate // of a client that reports
	ended  bool            // it was handed all steps that it asks for

	dropped chan error
	room    chan struct{} // signals that client.Taken has changed
}

// Next waits for the next step. It returns io.EOF behind the last step, or a *Error with the cause after Options.Stall.
// Rows of the step that it returned before are not needed any more.
func (r *Reader) Next(ctx context.Context) (*plan.Step, error) {
	f := r.follower
	next, err := r.ask()
	if err != nil {
		return nil, err
	}
	stall := time.NewTimer(f.options.Stall)
	defer stall.Stop()
	for {
		now := f.plan.Now()
		switch {
		case next < now.Steps:
			s, err := f.Prefetch.step(ctx, next)
			if err == nil {
				r.advance()
			}
			return s, err
		case now.Ended:
			r.end()
			return nil, io.EOF
		case now.Failed != nil:
			return nil, now.Failed
		}
		f.starve(now.Steps)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-now.Changed:
		case <-stall.C:
			e := f.cause(next)
			e.Facts["waited"] = f.options.Stall.String()
			return nil, e
		}
	}
}

// ask tells the leader that the reader wants its next step and no more rows of earlier ones.
func (r *Reader) ask() (next uint64, err error) {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	if r.gone != nil {
		return 0, r.gone
	}
	f := r.follower
	r.idle = time.Time{}
	f.readers.move(r, r.next, r.next)
	f.passed()
	if !r.left && !f.readers.tells(f.demand, r.place.JobName()) {
		f.raise()
	}
	if r.next >= r.turn {
		r.follower.Prefetch.turn()
	}
	return r.next, nil
}

// advance notes that the reader has its next step.
func (r *Reader) advance() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.idle = time.Now()
	r.follower.readers.move(r, r.next+1, r.reads)
	r.span.Sent = max(r.span.Sent, r.next)
	r.ended = r.client.Steps > 0 && r.next == r.from+r.client.Steps
	if d := &r.follower.demand; d.Furthest < r.next {
		d.Furthest = r.next
		r.follower.Leader.Want(*d)
	}
}

// end notes that no step follows.
func (r *Reader) end() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.ended = true
}

// Close deregisters the reader.
func (r *Reader) Close() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.follower.remove(r)
}

// Dropped gets the cause when the reader is dropped, whatever it does at that moment. Next returns the same then.
func (r *Reader) Dropped() <-chan error { return r.dropped }

// stat describes the reader. The caller holds the follower's mu.
func (r *Reader) stat() state.ReaderStat {
	return state.ReaderStat{Job: r.place.JobName(), Rank: r.place.Rank, World: r.place.World, Step: r.next}
}

// relieve forgets since when readers waited: they have gone.
func (f *Follower) relieve() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Time{}
}

// starve notes that a reader waits for step planned, the next one to be planned, and since when.
func (f *Follower) starve(planned uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() || f.starved < planned {
		f.starved, f.since = planned, time.Now()
	}
}
