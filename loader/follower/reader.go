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
	place    state.RankID
	// Guarded by the follower's mu:
	from       uint64          // first step
	next       uint64          // step that is requested next
	neededStep uint64          // first step whose rows may be requested: the last one that Next returned
	windowStep uint64          // step at which another window is read ahead
	closed     bool            // closed, or dropped
	idleSince  time.Time       // since when it has its step without requesting the next one; zero during a request
	dropCause  *fault.Error    // why it was dropped; nil otherwise
	heapIndex  [queueCount]int // its indexes in the follower's queues
	client     state.Client
	span       *jobspans.StepRange // of its job
	rate       consumptionRate     // of a client that reports
	ended      bool                // it was sent all steps that it requests

	dropped    chan error
	roomSignal chan struct{} // signals that client.Taken has changed
}

// Next waits for the next step. It returns io.EOF after the last step, or a *fault.Error with the cause after
// Options.Stall. After the call, rows of the previously returned step are no longer needed.
func (r *Reader) Next(ctx context.Context) (*plan.Step, error) {
	f := r.follower
	next, err := r.requestNext()
	if err != nil {
		return nil, err
	}
	stall := time.NewTimer(f.options.StallTimeout)
	defer stall.Stop()
	for {
		now := f.plan.Snapshot()
		if conflict := r.findConflict(next, now.WorldSizes); conflict != nil {
			return nil, conflict
		}
		switch {
		case next < now.Steps:
			s, err := f.Prefetch.step(ctx, next)
			if err == nil {
				r.advance()
			}
			return s, err
		case now.Ended:
			r.markEnded()
			return nil, io.EOF
		case now.Failure != nil:
			return nil, now.Failure
		}
		f.recordWait(now.Steps)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-now.Changed:
		case <-stall.C:
			e := f.stallCause(next)
			e.Facts["waited"] = f.options.StallTimeout.String()
			return nil, e
		}
	}
}

// requestNext reports to the leader that the reader needs its next step and no rows of earlier ones.
func (r *Reader) requestNext() (next uint64, err error) {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	if r.dropCause != nil {
		return 0, r.dropCause
	}
	f := r.follower
	r.idleSince = time.Time{}
	f.readers.move(r, r.next, r.next)
	f.updateNeeded()
	if !r.closed && !f.readers.matchesDemand(f.demand, r.place.JobName()) {
		f.sendDemand()
	}
	if r.next >= r.windowStep {
		r.follower.Prefetch.requestWindow()
	}
	return r.next, nil
}

// advance records that the reader has its next step.
func (r *Reader) advance() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.idleSince = time.Now()
	r.follower.readers.move(r, r.next+1, r.neededStep)
	r.span.Sent = max(r.span.Sent, r.next)
	r.ended = r.client.Steps > 0 && r.next == r.from+r.client.Steps
	if d := &r.follower.demand; d.Furthest < r.next {
		d.Furthest = r.next
		r.follower.Leader.SetDemand(*d)
	}
}

// markEnded records that no step follows.
func (r *Reader) markEnded() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.ended = true
}

// Close deregisters the reader.
func (r *Reader) Close() {
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.follower.removeReader(r)
}

// Dropped returns a channel that receives the cause when the reader is dropped. From then on Next returns the same
// error.
func (r *Reader) Dropped() <-chan error { return r.dropped }

// stat describes the reader. The caller holds the follower's mu.
func (r *Reader) stat() state.ReaderStat {
	return state.ReaderStat{Job: r.place.JobName(), Rank: r.place.Rank, World: r.place.World, Step: r.next}
}

// resetWait resets the start of the wait, because the waiting readers have left.
func (f *Follower) resetWait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waitStart = time.Time{}
}

// recordWait records that a reader waits for step planned, the next one to be planned, and since when.
func (f *Follower) recordWait(planned uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waitStart.IsZero() || f.awaitedStep < planned {
		f.awaitedStep, f.waitStart = planned, time.Now()
	}
}
