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
	"loaderd/loader/plan"
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
	// CopyPlanner returns a copy of the planner, once the replay of the log is complete.
	CopyPlanner(ctx context.Context) (PlannerCopy, error)
	// HasReaders reports whether a rank reads the run, on any daemon.
	HasReaders() bool
	// HasWaitingReader reports whether a reader waits for a step that is not planned.
	HasWaitingReader() bool
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

	mu               sync.Mutex
	length           *state.Length
	lengthControls   uint64         // value of controls that known covers
	measureRequested bool           // an exact measurement was requested, whatever it costs
	lastStored       map[int]uint64 // by source: last stored document at the last estimate
}

// NewEstimator returns the estimator of a run. Run keeps its estimate up to date.
func NewEstimator(run Run, c runconfig.Config, o backend.Options, streams *planview.Streams,
	log *slog.Logger) *Estimator {
	return &Estimator{run: run, config: c, options: o, streams: streams, log: log, wake: make(chan struct{}, 1)}
}

// growthDivisor is the part (one in growthDivisor) by which a stream must grow for an early new estimate.
const growthDivisor = 10

// RecordGrowth records the last document of a source's stream. Considerable growth since the last estimate triggers a
// new one.
func (e *Estimator) RecordGrowth(source int, last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was, known := e.lastStored[source]; known && last > was+was/growthDivisor {
		e.lastStored[source] = last
		waiting.Signal(e.wake)
	}
}

// RecordControl records that a control changes the run's length.
func (e *Estimator) RecordControl() {
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
	if e.length == nil || e.lengthControls != e.controls.Load() {
		return nil
	}
	known := *e.length
	return &known
}

// PlannerCopy is a copy of a run's planner at one moment, from which planning can continue.
type PlannerCopy struct {
	State    planrecord.Checkpoint
	Controls uint64 // value of Estimator.Controls at that moment
	Clock    uint64 // last document that the planner had read
	Ended    bool
	Sources  []mixture.Status
	Counts   []planner.SourceCounts
	Mix      *mixture.Mixture
	// Selections are those of the sources, by source.
	Selections []plan.Selection
}

// newApplier returns an applier that continues from the copy and is not shared.
func (e *Estimator) newApplier(ctx context.Context, c PlannerCopy) (*planner.Applier, error) {
	a, err := planner.Restore(e.run.Header(), c.State)
	if err == nil {
		err = planview.RestoreHints(ctx, a.Planner, e.streams)
	}
	return a, err
}

// openSources returns the names of the sources that have no last document yet.
func (c PlannerCopy) openSources() (names []string) {
	for _, s := range c.Sources {
		if !s.Sealed && !s.Removed {
			names = append(names, s.Name)
		}
	}
	return names
}

// minForecastInterval is the interval after the first estimate, and after one that a control triggers. The interval
// doubles up to Options.Forecast, because documents arrive fast at the beginning.
const minForecastInterval = time.Second

// Run keeps the estimate of the run's length up to date until ctx is done. Failures are retried; the run does not
// depend on the estimate.
func (e *Estimator) Run(ctx context.Context) error {
	every, wait := e.options.ForecastInterval, time.Duration(0)
	next := time.NewTimer(0)
	defer next.Stop()
	f := forecast{e: e, throttle: throttle{e: e}, samples: map[int]*sample{}}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
			wait = min(max(2*wait, minForecastInterval), every)
		case <-e.wake:
			wait = min(minForecastInterval, every)
		}
		if every > 0 {
			next.Reset(wait)
		} else if !e.isMeasureRequested() {
			continue
		}
		ended, err := f.updateLength(ctx)
		switch {
		case ended:
			<-ctx.Done()
			return ctx.Err()
		case err != nil && !errors.Is(err, errRunChanged) && ctx.Err() == nil:
			e.log.Warn("cannot estimate the length of the run", "error", err)
		}
	}
}

// isMeasureRequested reports whether a measurement was requested.
func (e *Estimator) isMeasureRequested() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.measureRequested
}

// setLength sets the estimate that covers that many controls.
func (e *Estimator) setLength(known state.Length, controls uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.length, e.lengthControls = &known, controls
}

// Measure requests a measurement of the run, which starts as soon as possible. It returns a *fault.Error if sources
// are open or the run has no end.
func (e *Estimator) Measure(ctx context.Context) error {
	c, err := e.run.CopyPlanner(ctx)
	if err != nil || c.Ended {
		return err
	}
	if open := c.openSources(); len(open) > 0 {
		return &fault.Error{Reason: fault.InvalidTicket,
			Message: fmt.Sprintf("%v may get more documents: how many steps the run will have is not decided", open),
			Advice:  "seal it (loaderd seal, loaderd source seal), or take the estimate"}
	}
	if c.isEndless() {
		return &fault.Error{Reason: fault.InvalidTicket,
			Message: "the run has no end: a source is read for ever, or no source that has documents left has a weight",
			Advice:  "end it by mix.end: first, or give the source a number of epochs"}
	}
	e.mu.Lock()
	e.measureRequested = true
	e.mu.Unlock()
	waiting.Signal(e.wake)
	return nil
}

// isEndless reports whether a run whose sources are all sealed has no end.
func (c PlannerCopy) isEndless() bool {
	left := make([]float64, len(c.Sources))
	for i, s := range c.Sources {
		switch {
		case s.Exhausted || s.Removed:
		case s.Epochs == mixture.Forever:
			left[i] = math.Inf(1)
		default:
			left[i] = 1e6 // some
		}
	}
	_, how := c.Mix.RemainingTokens(left, nil)
	return how != mixture.Finite
}
