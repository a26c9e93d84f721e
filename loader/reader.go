package loader

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Reader is one rank's place in the plan. Use it from one goroutine; Close it to stop holding the plan back.
type Reader struct {
	run   *Run
	place Place
	next  uint64
	reads uint64 // rows of steps before it are not needed; those of the step returned last still are
}

// Join registers a reader that will ask for steps from step on. It checks rank, world and step. It changes nothing but when the plan
// is fed.
func (r *Run) Join(place Place, step uint64) (*Reader, error) {
	if place.World < 1 || place.Rank < 0 || place.Rank >= place.World {
		return nil, &Error{Reason: BadTicket, Message: fmt.Sprintf("rank %d of world %d", place.Rank, place.World), Do: "ask for 0 <= rank < world"}
	}
	if err := r.config.CheckWorld(place.World); err != nil {
		return nil, err
	}
	reader := &Reader{run: r, place: place, next: step, reads: step}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case step < r.oldest:
		return nil, released(step, r.oldest)
	case r.ended && step > r.planned:
		return nil, &Error{Reason: StepNotPlanned, Message: fmt.Sprintf("run %s ended before step %d: it has %d steps", r.name, step, r.planned),
			Do:    "ask for an earlier step; this may be another run than the one you resume",
			Facts: map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(r.planned, 10)}}
	case step > max(r.planned, r.high)+uint64(r.options.Ahead):
		return nil, notPlanned(step, r.planned)
	}
	r.readers[reader] = struct{}{}
	return reader, nil
}

// Next waits for the next step. It returns io.EOF behind the last step, or a *Error with the cause after Options.Stall. Of the step before,
// no more rows are needed.
func (r *Reader) Next(ctx context.Context) (*Step, error) {
	run := r.run
	run.mu.Lock()
	r.reads = r.next
	run.mu.Unlock()
	run.raise()
	stall := time.NewTimer(run.options.Stall)
	defer stall.Stop()
	for {
		run.mu.Lock()
		next, planned, ended, failed, changed := r.next, run.planned, run.ended, run.failed, run.changed
		if next >= planned && run.starving.IsZero() {
			run.starving = time.Now()
		}
		run.mu.Unlock()
		switch {
		case next < planned:
			s, err := run.Step(ctx, next)
			if err == nil {
				run.mu.Lock()
				r.next++
				run.mu.Unlock()
			}
			return s, err
		case ended:
			return nil, io.EOF
		case failed != nil:
			return nil, failed
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		case <-stall.C:
			e := run.cause(next)
			e.Facts["waited"] = run.options.Stall.String()
			return nil, e
		}
	}
}

// waitedFor reports whether a reader waits for a step that is not planned.
func (r *Run) waitedFor() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := range r.readers {
		if x.next >= r.planned {
			return true
		}
	}
	return false
}

// Close deregisters the reader.
func (r *Reader) Close() {
	r.run.mu.Lock()
	delete(r.run.readers, r)
	r.run.mu.Unlock()
	r.run.raise()
}

// raise recomputes how far readers have asked. Ranks of one world advance together: the slowest of them counts, so that a rank that
// stops makes the daemon wait instead of grow. Different worlds (a trainer, and someone who looks at old steps) do not hold each
// other back.
func (r *Run) raise() {
	r.mu.Lock()
	before := r.high
	for _, x := range r.slowest() {
		r.high = max(r.high, x.next+1)
	}
	raised := r.high > before
	r.mu.Unlock()
	if raised {
		select {
		case r.asked <- struct{}{}:
		default:
		}
	}
}

// slowest returns the reader that is furthest behind in every world. The caller holds mu.
func (r *Run) slowest() map[int]*Reader {
	out := map[int]*Reader{}
	for x := range r.readers {
		if y := out[x.place.World]; y == nil || x.next < y.next {
			out[x.place.World] = x
		}
	}
	return out
}

// limit returns the step that may not be planned yet.
func (r *Run) limit() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.high + uint64(r.options.Ahead)
}
