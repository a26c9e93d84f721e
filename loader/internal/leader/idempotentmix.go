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

// A change of the mixture must be idempotent: a client repeats a request whose answer was lost, and a resumed trainer
// repeats its decision. The plan has one change per request, and one per number of steps after which a trainer
// decided.

// FindDecidedChange searches the plan for a change of the mixture that was decided after the same number of steps as c.
// It scans the plan from that step on, because such a change is recorded soon after it.
func FindDecidedChange(ctx context.Context, log backend.PlanLog,
	c planrecord.Mix) (x state.MixResult, found bool, err error) {
	decided, from := *c.DecidedStep, uint64(2) // after the header
	if decided > 0 {
		from, err = (&planview.Reader{Log: log}).LocateStep(ctx, decided-1)
		if errors.Is(err, planview.ErrNoStep) {
			return state.MixResult{}, false, nil
		}
		if err != nil {
			return state.MixResult{}, false, err
		}
	}
	err = scanChanges(ctx, log, from, decided, func(m planrecord.Mix, step uint64) error {
		if m.DecidedStep != nil && *m.DecidedStep == decided {
			x, found = state.MixResult{Step: step, Weights: m.Weights, Duplicate: m.RequestID != c.RequestID}, true
			return planview.ErrStopScan
		}
		return nil
	})
	if err != nil && !found {
		return state.MixResult{}, false, err
	}
	return x, found, nil
}

// scanChanges calls f with every change of the mixture from a position of the plan on, and the first step after it.
// next is the index of the step after the plan's last record.
func scanChanges(ctx context.Context, log backend.PlanLog, from, next uint64,
	f func(m planrecord.Mix, step uint64) error) error {
	step, known := uint64(0), from <= 2
	var early []planrecord.Mix // recorded before the first step record
	behind := func(next uint64) error {
		for _, m := range early {
			if err := f(m, next); err != nil {
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
		case planrecord.Mix:
			if !known {
				early = append(early, e)
				return nil
			}
			return f(e, step)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return behind(next)
}

// recentChanges holds the latest changes of the mixture, including those that are not stored yet.
type recentChanges struct {
	list   []recentChange
	loaded bool // whether changes of earlier terms are in the list
}

type recentChange struct {
	decided *uint64
	request string
	result  state.MixResult
}

const (
	// maxRecentChanges far exceeds the number of changes recorded until a client repeats its request.
	maxRecentChanges = 256
	// recentRecordCount is the number of the plan's last records that a new leader searches for changes. It far exceeds
	// the number of records appended until a client repeats its request to that leader.
	recentRecordCount = 1024
)

func (c *recentChanges) add(m planrecord.Mix, step uint64) {
	if len(c.list) == maxRecentChanges {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, recentChange{m.DecidedStep, m.RequestID, state.MixResult{Step: step, Weights: m.Weights}})
}

// find returns the change that was recorded for a request.
func (c *recentChanges) find(m planrecord.Mix) (state.MixResult, bool) {
	for _, x := range c.list {
		if m.RequestID != "" && x.request == m.RequestID {
			return x.result, true
		}
		if m.DecidedStep != nil && x.decided != nil && *x.decided == *m.DecidedStep {
			x.result.Duplicate = true
			return x.result, true
		}
	}
	return state.MixResult{}, false
}

// findChange returns the change that was recorded for a request. Its first call reads the changes that earlier
// leaders recorded.
func (h *commandHandler) findChange(ctx context.Context, m planrecord.Mix) (state.MixResult, bool, error) {
	if !h.recentChanges.loaded {
		var earlier recentChanges
		from := max(2, h.queue.tail.Position-min(h.queue.tail.Position, recentRecordCount))
		add := func(m planrecord.Mix, step uint64) error {
			earlier.add(m, step)
			return nil
		}
		err := scanChanges(ctx, h.setup.Backends.Plan, from, h.applier.Planner.Next(), add)
		if err != nil {
			return state.MixResult{}, false, err
		}
		// No change has been recorded in this term, because findChange is called before each record.
		h.recentChanges = recentChanges{list: earlier.list, loaded: true}
	}
	x, found := h.recentChanges.find(m)
	return x, found, nil
}
