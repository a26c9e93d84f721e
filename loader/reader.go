package loader

import (
	"context"
	"io"
	"time"

	"loaderd/loader/plan"
)

// Reader is one rank's place in the plan. Use it from one goroutine; Close it to stop holding the plan back.
type Reader struct {
	follower *follower
	place    Place
	// Under the follower's mu:
	next  uint64 // step that is asked for next
	reads uint64 // rows of steps before it are not needed; those of the step returned last still are
}

// Next waits for the next step. It returns io.EOF behind the last step, or a *Error with the cause after Options.Stall. Of the step before,
// no more rows are needed.
func (r *Reader) Next(ctx context.Context) (*plan.Step, error) {
	f := r.follower
	next := r.ask()
	stall := time.NewTimer(f.options.Stall)
	defer stall.Stop()
	for {
		now := f.plan.now()
		switch {
		case next < now.steps:
			s, err := f.plan.step(ctx, next)
			if err == nil {
				r.advance()
			}
			return s, err
		case now.ended:
			return nil, io.EOF
		case now.failed != nil:
			return nil, now.failed
		}
		f.starve(now.steps)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-now.changed:
		case <-stall.C:
			e := f.cause(next)
			e.Facts["waited"] = f.options.Stall.String()
			return nil, e
		}
	}
}

// ask tells the leader that the reader wants its next step, and no more rows of the one before.
func (r *Reader) ask() (next uint64) {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.reads = r.next
	r.follower.raise()
	return r.next
}

// advance notes that the reader has its next step.
func (r *Reader) advance() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.next++
	d := &r.follower.demand
	d.Furthest = max(d.Furthest, r.next)
	r.follower.leader.want(*d)
}

// Close deregisters the reader.
func (r *Reader) Close() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	delete(r.follower.readers, r)
	r.follower.raise()
}

// relieve notes that nobody waits any more.
func (f *follower) relieve() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Time{}
}

// starve notes that a reader waits for a step that is planned next.
func (f *follower) starve(planned uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() || f.starved < planned {
		f.starved, f.since = planned, time.Now()
	}
}
