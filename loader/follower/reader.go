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

// Reader is one rank's position in the plan. It is not safe for concurrent use. An open Reader holds back the plan;
// Close ends that.
type Reader struct {
	follower *Follower
	place    state.Place
	// Guarded by the follower's mu:
	from   uint64       // first step
	next   uint64       // step that is requested next
	reads  uint64       // first step whose rows may be requested: the last one that Next returned
	turn   uint64       // step at which another window is read ahead
	left   bool         // closed, or dropped
	idle   time.Time    // since when it has its step without requesting the next one; zero during a request
	gone   *fault.Error // why it was dropped; nil otherwise
	at     [orders]int  // its indexes in the follower's queues
	client state.Client
	span   *jobspans.Span  // of its job
	rate   consumptionRate // of a client that reports
	ended  bool            // it was sent all steps that it requests

	dropped chan error
	room    chan struct{} // signals that client.Taken has changed
}

// Next waits for the next step. It returns io.EOF after the last step, or a *fault.Error with the cause after
// Options.Stall. After the call, rows of the previously returned step are no longer needed.
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

// ask reports to the leader that the reader needs its next step and no rows of earlier ones.
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

// advance records that the reader has its next step.
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

// end records that no step follows.
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

// Dropped returns a channel that receives the cause when the reader is dropped. From then on Next returns the same
// error.
func (r *Reader) Dropped() <-chan error { return r.dropped }

// stat describes the reader. The caller holds the follower's mu.
func (r *Reader) stat() state.ReaderStat {
	return state.ReaderStat{Job: r.place.JobName(), Rank: r.place.Rank, World: r.place.World, Step: r.next}
}

// relieve resets the start of the wait, because the waiting readers have left.
func (f *Follower) relieve() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Time{}
}

// starve records that a reader waits for step planned, the next one to be planned, and since when.
func (f *Follower) starve(planned uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() || f.starved < planned {
		f.starved, f.since = planned, time.Now()
	}
}
