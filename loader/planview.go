package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sort"
	"strconv"
	"sync"
	"time"

	"loaderd/loader/plan"
)

// planView is what one process knows of a run's plan: what its log holds, with the newest steps in memory. Between leader and followers
// there is nothing else but demand: the leader extends it by what it has stored, followers read it and wait until it changes.
type planView struct {
	log      PlanLog
	reader   *planReader
	header   plan.Header
	recent   uint64        // how many steps are kept in memory
	patience time.Duration // how long a step is read from the log

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when what follows changes
	steps   uint64        // that the log holds
	ended   bool          // no step follows
	keepers plan.Keepers
	oldest  uint64 // steps before it cannot be read: their documents are purged
	failed  error  // why nothing follows here, though the run has not ended
	newest  map[uint64]*plan.Step
}

func newPlanView(log PlanLog, o Options) *planView {
	return &planView{log: log, reader: &planReader{log: log}, recent: uint64(o.Ahead) + recentSteps, patience: o.Stall,
		changed: make(chan struct{}), keepers: plan.Keepers{}, newest: map[uint64]*plan.Step{}}
}

// recentSteps is how many steps beyond Options.Ahead are kept in memory; older ones are read from the plan log.
const recentSteps = 64

// now is what changes of a plan.
type planned struct {
	steps   uint64
	ended   bool
	keepers plan.Keepers
	oldest  uint64
	failed  error
	changed <-chan struct{} // closed when any of this changes
}

// now returns what the process knows now.
func (v *planView) now() planned {
	v.mu.Lock()
	defer v.mu.Unlock()
	return planned{v.steps, v.ended, maps.Clone(v.keepers), v.oldest, v.failed, v.changed}
}

// planned returns the number of steps that the log holds.
func (v *planView) planned() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.steps
}

// update changes what is known and wakes those who wait.
func (v *planView) update(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	close(v.changed)
	v.changed = make(chan struct{})
}

// extend makes a stored step readable.
func (v *planView) extend(s *plan.Step) {
	v.update(func() {
		v.steps = s.Index + 1
		v.newest[s.Index] = s
		delete(v.newest, s.Index-v.recent)
	})
}

// keep notes who keeps checkpoints now. The map is not changed any more.
func (v *planView) keep(k plan.Keepers) { v.update(func() { v.keepers = k }) }

// end notes that no step follows.
func (v *planView) end() { v.update(func() { v.ended = true }) }

// fail notes why nothing follows.
func (v *planView) fail(err error) { v.update(func() { v.failed = err }) }

// step returns one step without waiting for it: io.EOF behind the end, a *Error for one that is not planned yet.
func (v *planView) step(ctx context.Context, step uint64) (*plan.Step, error) {
	v.mu.Lock()
	s, steps, ended := v.newest[step], v.steps, v.ended
	v.mu.Unlock()
	switch {
	case s != nil:
		return s, nil
	case step < steps:
		return v.stored(ctx, step)
	case ended:
		return nil, io.EOF
	}
	return nil, notPlanned(step, steps)
}

func notPlanned(step, planned uint64) error {
	return &Error{Reason: StepNotPlanned, Message: fmt.Sprintf("step %d is not planned yet; the plan holds %d steps", step, planned),
		Do:    "ask for a step of the plan, or for the next one",
		Facts: map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(planned, 10)}}
}

// stored reads a step from the plan log, which may be out of reach.
func (v *planView) stored(ctx context.Context, step uint64) (*plan.Step, error) {
	limit, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	s, err := v.reader.step(limit, step)
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		return nil, &Error{Reason: PlanLogDown, Message: fmt.Sprintf("step %d could not be read from the plan log within %s", step, v.patience),
			Do: "check the JetStream server; ask again", Err: err}
	}
	return s, err
}

// floorBefore returns the floor of a step and all after it: what documents they need lies behind it.
func (v *planView) floorBefore(ctx context.Context, step uint64) (plan.Position, error) {
	if step == 0 {
		return plan.Before(v.header.Start), nil
	}
	s, err := v.step(ctx, step-1)
	if err != nil {
		return plan.Position{}, fmt.Errorf("read the floor of step %d: %w", step, err)
	}
	return s.Floor, nil
}

// oldestStep returns the first step that needs no document that a position covers, nor does any after it.
func (v *planView) oldestStep(ctx context.Context, gone plan.Position) (uint64, error) {
	if plan.Before(v.header.Start).Reaches(gone) {
		return 0, nil
	}
	var failed error
	n := sort.Search(int(v.planned()), func(step int) bool {
		floor, err := v.floorBefore(ctx, uint64(step))
		if err != nil {
			failed = err
		}
		return floor.Reaches(gone)
	})
	return uint64(n), failed
}

// release notes that the documents which a position covers may be gone: which steps can be read from now on.
func (v *planView) release(ctx context.Context, gone plan.Position) error {
	oldest, err := v.oldestStep(ctx, gone)
	if err == nil {
		v.update(func() { v.oldest = max(v.oldest, oldest) })
	}
	return err
}

// lost turns the loss of a document of a committed step into the news that the step is released.
func (v *planView) lost(step uint64, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Reason != DocumentLost {
		return err
	}
	now := v.now()
	if oldest := max(now.keepers.Committed(), now.oldest); step < oldest {
		return released(step, oldest)
	}
	return err
}
