package loader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// length is what a leader knows of the length of its run.
type length struct {
	controls atomic.Uint64 // recorded since the leader was made
	wake     chan struct{} // signals that it is to be looked at now

	// Under the leader's mutex.
	known  *state.Length
	at     uint64         // controls that known is behind
	asked  bool           // to be measured whatever that takes
	stored map[int]uint64 // by source: the last document that was stored when it was looked at last
}

// muchMore is by which part a stream grows until its run's length is estimated anew before its time.
const muchMore = 10

// grows notes what a stream holds now: with much more than an estimate knows of it is made anew.
func (l *leader) grows(source int, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, known := l.long.stored[source]; known && last > was+was/muchMore {
		l.long.stored[source] = last
		waiting.Signal(l.long.wake)
	}
}

// recorded notes that a control changes how long the run is.
func (x *length) recorded() {
	x.controls.Add(1)
	waiting.Signal(x.wake)
}

// howLong returns how long the run will be; nil while that is not known, as behind a control until it is found out anew. The caller holds mu.
func (l *leader) howLong() *state.Length {
	if l.long.known == nil || l.long.at != l.long.controls.Load() {
		return nil
	}
	known := *l.long.known
	return &known
}

// copied is a run's planner as it was at one moment, to be played on.
type copied struct {
	state    plan.Checkpoint
	controls uint64
	clock    uint64 // last document that it had taken
	ended    bool
	sources  []mixture.Status
	counts   []planner.SourceCounts
	mix      *mixture.Mixture
}

// copy asks the loop for a copy of the planner. It waits until what the log holds is planned again.
func (l *leader) copy(ctx context.Context) (c copied, err error) {
	taken := make(chan copied, 1) // nobody may take it out, when ctx ends
	take := func(a *planner.Applier, tail plan.Tail) {
		l.streams.Learn(a.Planner.Infos()) // one may just have been added, and none of it read
		m := a.Planner.Mixture()
		taken <- copied{state: a.Checkpoint(l.header.Fingerprint, tail), controls: l.long.controls.Load(), clock: a.Planner.Clock(), ended: a.Ended,
			mix: m.Clone(), sources: m.Status(), counts: a.Planner.SourceCounts()}
	}
	select {
	case l.requests <- request{look: take, reply: make(chan answer, 1)}:
	case <-ctx.Done():
		return c, ctx.Err()
	}
	select {
	case c := <-taken:
		return c, nil
	case <-ctx.Done():
		return c, ctx.Err()
	}
}

// play returns an applier that goes on from the copy and that nobody else has.
func (l *leader) play(ctx context.Context, c copied) (*planner.Applier, error) {
	a, err := planner.Restore(l.header, c.state)
	if err == nil {
		err = planview.RestoreHints(ctx, a.Planner, l.streams)
	}
	return a, err
}

// open names what has no last document yet.
func (c copied) open() (names []string) {
	for _, s := range c.sources {
		if !s.Sealed && !s.Removed {
			names = append(names, s.Name)
		}
	}
	return names
}

// firstForecast is how soon an estimate follows the first one, and one that a control asks for. Each further one takes twice as long to come, up to
// Options.Forecast: at the beginning documents come fast.
const firstForecast = time.Second

// tellLength keeps what is known of the run's length up to date, until ctx is done. Whatever fails is tried again: the run does not depend on it.
func (l *leader) tellLength(ctx context.Context) error {
	every, wait := l.options.Forecast, time.Duration(0)
	next := time.NewTimer(0)
	defer next.Stop()
	f := forecast{aside: aside{leader: l}, samples: map[int]*sample{}}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
			wait = min(max(2*wait, firstForecast), every)
		case <-l.long.wake:
			wait = min(firstForecast, every)
		}
		if every > 0 {
			next.Reset(wait)
		} else if !l.asked() {
			continue
		}
		ended, err := f.renew(ctx)
		switch {
		case ended:
			<-ctx.Done()
			return ctx.Err()
		case err != nil && !errors.Is(err, errChanged) && ctx.Err() == nil:
			l.log.Warn("how long the run will be cannot be told now", "error", err)
		}
	}
}

// asked reports whether somebody wants the run to be measured.
func (l *leader) asked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.long.asked
}

// tells sets what is known, behind so many controls.
func (l *leader) tells(known state.Length, controls uint64) {
	l.update(func() { l.long.known, l.long.at = &known, controls })
}

// measure has the leader measure the run, as soon as it may.
func (l *leader) measure(ctx context.Context) error {
	c, err := l.copy(ctx)
	if err != nil || c.ended {
		return err
	}
	if open := c.open(); len(open) > 0 {
		return &fault.Error{Reason: fault.BadTicket, Message: fmt.Sprintf("%v may get more documents: how many steps the run will have is not decided", open),
			Do: "seal it (loaderd seal, loaderd source seal), or take the estimate"}
	}
	if l.endless(c) {
		return &fault.Error{Reason: fault.BadTicket, Message: "the run has no end: a source is read for ever, or no source that has documents left has a weight",
			Do: "end it by mix.end: first, or give the source a number of epochs"}
	}
	l.update(func() { l.long.asked = true })
	waiting.Signal(l.long.wake)
	return nil
}

// endless reports whether a run whose sources are all sealed does not end by itself.
func (l *leader) endless(c copied) bool {
	left := make([]float64, len(c.sources))
	for i, s := range c.sources {
		switch {
		case s.UsedUp || s.Removed:
		case s.Epochs == mixture.Forever:
			left[i] = math.Inf(1)
		default:
			left[i] = 1e6 // some
		}
	}
	_, how := c.mix.Lasts(left)
	return how != mixture.Ends
}

// Measure has the leader count how many steps the run will have, in the background: it reads every document that is left once more, and plans it beside the run. Info
// tells how far that is. It is refused while a source is not sealed, and for a run without an end.
func (r *Run) Measure(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, r.office.options.Stall)
	defer cancel()
	_, err := r.asks(ctx, limit, question{Measure: true})
	return err
}

// Length returns how many steps the run has or will have, nil while no daemon that plans it has told.
func (r *Run) Length() *state.Length {
	if now := r.plan.Now(); now.Ended {
		return &state.Length{Steps: now.Steps, Exact: true}
	}
	l := r.office.length()
	if l != nil && !l.Exact && !l.Endless && !l.Idle { // an estimate may be older than the newest steps
		l.Steps = max(l.Steps, r.plan.Now().Steps)
	}
	return l
}

// length is what the leader says of the run's length, here or elsewhere.
func (o *office) length() *state.Length {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.here(); l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.howLong()
	}
	if o.told.Length == nil {
		return nil
	}
	told := *o.told.Length
	return &told
}
