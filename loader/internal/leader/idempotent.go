package leader

import (
	"context"
	"errors"
	"slices"

	"loaderd/loader/backend"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/state"
)

// A change of the mixture or of the schedule must be idempotent: a client repeats a request whose answer was lost, and
// a resumed trainer repeats its decision. The plan has one change per request, and one change of the mixture per number
// of steps after which a trainer decided.

// FindDecidedChange searches the plan for a change of the mixture that was decided after the same number of steps as c.
// It scans the plan from that step on, because such a change is recorded soon after it.
func FindDecidedChange(ctx context.Context, log backend.PlanLog,
	c planrecord.Mix) (x state.MixResult, found bool, err error) {
	decided, request, from := *c.DecidedStep, c.RequestID, uint64(2) // after the header
	if decided > 0 {
		from, err = (&planview.Reader{Log: log}).LocateStep(ctx, decided-1)
		if errors.Is(err, planview.ErrNoStep) {
			return state.MixResult{}, false, nil
		}
		if err != nil {
			return state.MixResult{}, false, err
		}
	}
	err = scanChanges(ctx, log, from, decided, func(c planrecord.Control, step uint64) error {
		if m, ok := c.(planrecord.Mix); ok && m.DecidedStep != nil && *m.DecidedStep == decided {
			x, found = state.MixResult{Step: step, Weights: m.Weights, Duplicate: m.RequestID != request}, true
			return planview.ErrStopScan
		}
		return nil
	})
	if err != nil && !found {
		return state.MixResult{}, false, err
	}
	return x, found, nil
}

// scanChanges calls f with every change of the mixture or the schedule from a position of the plan on, and the first
// step after it. next is the index of the step after the plan's last record.
func scanChanges(ctx context.Context, log backend.PlanLog, from, next uint64,
	f func(c planrecord.Control, step uint64) error) error {
	step, known := uint64(0), from <= 2
	var early []planrecord.Control // recorded before the first step record
	behind := func(next uint64) error {
		for _, c := range early {
			if err := f(c, next); err != nil {
				return err
			}
		}
		early = nil
		return nil
	}
	err := log.Scan(ctx, from, func(position uint64, b []byte) error {
		e, err := planrecord.Decode(b)
		if err != nil {
			return planview.DamagedRecordError(position, err)
		}
		switch e := e.(type) {
		case planrecord.StepPart:
			if err := behind(e.Index); err != nil {
				return err
			}
			step, known = e.Index+1, true
		case planrecord.Mix, planrecord.Schedule:
			if !known {
				early = append(early, e.(planrecord.Control))
				return nil
			}
			return f(e.(planrecord.Control), step)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return behind(next)
}

// recentChanges holds the latest changes of the mixture and the schedule, including those that are not stored yet.
type recentChanges struct {
	list   []recentChange
	loaded bool // whether changes of earlier terms are in the list
}

type recentChange struct {
	decided *uint64 // only of the mixture
	request string
	result  Result
}

// newRecentChange returns the change that a control makes, with its result.
func newRecentChange(c planrecord.Control, step uint64) recentChange {
	switch c := c.(type) {
	case planrecord.Mix:
		return recentChange{c.DecidedStep, c.RequestID, Result{Mix: &state.MixResult{Step: step, Weights: c.Weights}}}
	case planrecord.Schedule:
		return recentChange{nil, c.RequestID, Result{At: step}}
	}
	return recentChange{}
}

const (
	// maxRecentChanges far exceeds the number of changes recorded until a client repeats its request.
	maxRecentChanges = 256
	// recentRecordCount is the number of the plan's last records that a new leader searches for changes. It far exceeds
	// the number of records appended until a client repeats its request to that leader.
	recentRecordCount = 1024
)

func (c *recentChanges) add(change planrecord.Control, step uint64) {
	if len(c.list) == maxRecentChanges {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, newRecentChange(change, step))
}

// find returns the result of the change that was recorded for a request.
func (c *recentChanges) find(request planrecord.Control) (Result, bool) {
	want := newRecentChange(request, 0)
	for _, x := range c.list {
		if (x.result.Mix == nil) != (want.result.Mix == nil) {
			continue
		}
		if want.request != "" && x.request == want.request {
			return x.result, true
		}
		if want.decided != nil && x.decided != nil && *x.decided == *want.decided {
			mix := *x.result.Mix
			mix.Duplicate = true
			return Result{Mix: &mix}, true
		}
	}
	return Result{}, false
}

// findChange returns the result of the change that was recorded for a request. Its first call reads the changes that
// earlier leaders recorded.
func (h *commandHandler) findChange(ctx context.Context, request planrecord.Control) (Result, bool, error) {
	if !h.recentChanges.loaded {
		var earlier recentChanges
		from := max(2, h.queue.tail.Position-min(h.queue.tail.Position, recentRecordCount))
		add := func(c planrecord.Control, step uint64) error {
			earlier.add(c, step)
			return nil
		}
		err := scanChanges(ctx, h.setup.Backends.Plan, from, h.applier.Planner.Next(), add)
		if err != nil {
			return Result{}, false, err
		}
		// No change has been recorded in this term, because findChange is called before each record.
		h.recentChanges = recentChanges{list: earlier.list, loaded: true}
	}
	x, found := h.recentChanges.find(request)
	return x, found, nil
}
