package forecast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/mixture"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// Run is the run whose length is estimated, as provided by its leader.
type Run interface {
	// Header returns the header of the plan.
	Header() planrecord.Header
	// Copy returns a copy of the planner, once the replay of the log is complete.
	Copy(ctx context.Context) (Copied, error)
	// Read reports whether a rank reads the run, on any daemon.
	Read() bool
	// WaitedFor reports whether a reader waits for a step that is not planned.
	WaitedFor() bool
}

// Estimator estimates how many steps a run will have.
type Estimator struct {
	run      Run
	config   runconfig.Config
	options  backend.Options
	streams  *planview.Streams
	log      *slog.Logger
	controls atomic.Uint64 // recorded since the estimator was created
	wake     chan struct{} // signals that the estimate is due now

	mu     sync.Mutex
	known  *state.Length
	at     uint64         // value of controls that known covers
	asked  bool           // an exact measurement was requested, whatever it costs
	stored map[int]uint64 // by source: last stored document at the last estimate
}

// NewEstimator returns the estimator of a run. Run keeps its estimate up to date.
func NewEstimator(run Run, c runconfig.Config, o backend.Options, streams *planview.Streams,
	log *slog.Logger) *Estimator {
	return &Estimator{run: run, config: c, options: o, streams: streams, log: log, wake: make(chan struct{}, 1)}
}

// muchMore is the part (one in muchMore) by which a stream must grow for an early new estimate.
const muchMore = 10

// Grows records the last document of a source's stream. Considerable growth since the last estimate triggers a new
// one.
func (e *Estimator) Grows(source int, last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was, known := e.stored[source]; known && last > was+was/muchMore {
		e.stored[source] = last
		waiting.Signal(e.wake)
	}
}

// Recorded records that a control changes the run's length.
func (e *Estimator) Recorded() {
	e.controls.Add(1)
	waiting.Signal(e.wake)
}

// Controls returns how many controls were recorded.
func (e *Estimator) Controls() uint64 { return e.controls.Load() }

// Length returns the estimated length of the run; nil while it is unknown, for example after a control until the next
// estimate.
func (e *Estimator) Length() *state.Length {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil || e.at != e.controls.Load() {
		return nil
	}
	known := *e.known
	return &known
}

// Copied is a copy of a run's planner at one moment, from which planning can continue.
type Copied struct {
	State    planrecord.Checkpoint
	Controls uint64 // value of Estimator.Controls at that moment
	Clock    uint64 // last document that the planner had read
	Ended    bool
	Sources  []mixture.Status
	Counts   []planner.SourceCounts
	Mix      *mixture.Mixture
}

// play returns an applier that continues from the copy and is not shared.
func (e *Estimator) play(ctx context.Context, c Copied) (*planner.Applier, error) {
	a, err := planner.Restore(e.run.Header(), c.State)
	if err == nil {
		err = planview.RestoreHints(ctx, a.Planner, e.streams)
	}
	return a, err
}

// open returns the names of the sources that have no last document yet.
func (c Copied) open() (names []string) {
	for _, s := range c.Sources {
		if !s.Sealed && !s.Removed {
			names = append(names, s.Name)
		}
	}
	return names
}

// firstForecast is the interval after the first estimate, and after one that a control triggers. The interval doubles
// up to Options.Forecast, because documents arrive fast at the beginning.
const firstForecast = time.Second

// Run keeps the estimate of the run's length up to date until ctx is done. Failures are retried; the run does not
// depend on the estimate.
func (e *Estimator) Run(ctx context.Context) error {
	every, wait := e.options.Forecast, time.Duration(0)
	next := time.NewTimer(0)
	defer next.Stop()
	f := forecast{e: e, throttle: throttle{e: e}, samples: map[int]*sample{}}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
			wait = min(max(2*wait, firstForecast), every)
		case <-e.wake:
			wait = min(firstForecast, every)
		}
		if every > 0 {
			next.Reset(wait)
		} else if !e.isAsked() {
			continue
		}
		ended, err := f.renew(ctx)
		switch {
		case ended:
			<-ctx.Done()
			return ctx.Err()
		case err != nil && !errors.Is(err, errChanged) && ctx.Err() == nil:
			e.log.Warn("cannot estimate the length of the run", "error", err)
		}
	}
}

// isAsked reports whether a measurement was requested.
func (e *Estimator) isAsked() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// tells sets the estimate that covers that many controls.
func (e *Estimator) tells(known state.Length, controls uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known, e.at = &known, controls
}

// Measure requests a measurement of the run, which starts as soon as possible. It returns a *fault.Error if sources
// are open or the run has no end.
func (e *Estimator) Measure(ctx context.Context) error {
	c, err := e.run.Copy(ctx)
	if err != nil || c.Ended {
		return err
	}
	if open := c.open(); len(open) > 0 {
		return &fault.Error{Reason: fault.BadTicket,
			Message: fmt.Sprintf("%v may get more documents: how many steps the run will have is not decided", open),
			Do:      "seal it (loaderd seal, loaderd source seal), or take the estimate"}
	}
	if c.endless() {
		return &fault.Error{Reason: fault.BadTicket,
			Message: "the run has no end: a source is read for ever, or no source that has documents left has a weight",
			Do:      "end it by mix.end: first, or give the source a number of epochs"}
	}
	e.mu.Lock()
	e.asked = true
	e.mu.Unlock()
	waiting.Signal(e.wake)
	return nil
}

// endless reports whether a run whose sources are all sealed has no end.
func (c Copied) endless() bool {
	left := make([]float64, len(c.Sources))
	for i, s := range c.Sources {
		switch {
		case s.UsedUp || s.Removed:
		case s.Epochs == mixture.Forever:
			left[i] = math.Inf(1)
		default:
			left[i] = 1e6 // some
		}
	}
	_, how := c.Mix.Lasts(left)
	return how != mixture.Ends
}
