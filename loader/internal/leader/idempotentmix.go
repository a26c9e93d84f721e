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

// A change of the mixture must not be recorded twice when a request is repeated, because its answer was lost or a
// trainer resumed. The plan has one change per request, and one per number of steps on which a trainer decided.

// ChangeDecided looks in the plan for the change of the mixture that was decided on behind the steps that c was decided
// on. The plan is scanned from there: such a change is recorded soon after the steps.
func ChangeDecided(ctx context.Context, log backend.PlanLog,
	c planrecord.Mix) (x state.MixResult, found bool, err error) {
	decided, from := *c.Decided, uint64(2) // behind the header
	if decided > 0 {
		from, err = (&planview.Reader{Log: log}).Locate(ctx, decided-1)
		if errors.Is(err, planview.ErrNoStep) {
			return state.MixResult{}, false, nil
		}
		if err != nil {
			return state.MixResult{}, false, err
		}
	}
	err = changes(ctx, log, from, decided, func(m planrecord.Mix, step uint64) error {
		if m.Decided != nil && *m.Decided == decided {
			x, found = state.MixResult{Step: step, Weights: m.Weights, Again: m.Request != c.Request}, true
			return planview.ErrFound
		}
		return nil
	})
	if err != nil && !found {
		return state.MixResult{}, false, err
	}
	return x, found, nil
}

// changes calls f with every change of the mixture from a position of the plan on, and the first step behind it; next
// is the step behind the plan's last record.
func changes(ctx context.Context, log backend.PlanLog, from, next uint64,
	f func(m planrecord.Mix, step uint64) error) error {
	step, known := uint64(0), from <= 2
	var early []planrecord.Mix // stand before the first step record
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
			return planview.Damaged(position, err)
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

// recentChanges are the last changes of the mixture that the plan has, those among them that are not stored yet.
type recentChanges struct {
	list []recentChange
	read bool // whether changes of earlier terms are in the list
}

type recentChange struct {
	decided *uint64
	request string
	result  state.MixResult
}

const (
	// maxRecentChanges is far more than are recorded until a client repeats its request.
	maxRecentChanges = 256
	// recentRecords is in how many of the plan's last records a new leader looks for changes: far more than are
	// appended until a client repeats its request to that leader.
	recentRecords = 1024
)

func (c *recentChanges) add(m planrecord.Mix, step uint64) {
	if len(c.list) == maxRecentChanges {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, recentChange{m.Decided, m.Request, state.MixResult{Step: step, Weights: m.Weights}})
}

// find returns the change that the plan has for a request.
func (c *recentChanges) find(m planrecord.Mix) (state.MixResult, bool) {
	for _, x := range c.list {
		if m.Request != "" && x.request == m.Request {
			return x.result, true
		}
		if m.Decided != nil && x.decided != nil && *x.decided == *m.Decided {
			x.result.Again = true
			return x.result, true
		}
	}
	return state.MixResult{}, false
}

// findChange returns the change that the plan has for a request. The first time, it reads what earlier leaders
// recorded.
func (h *commandHandler) findChange(ctx context.Context, m planrecord.Mix) (state.MixResult, bool, error) {
	if !h.recent.read {
		var earlier recentChanges
		from := max(2, h.queue.tail.Position-min(h.queue.tail.Position, recentRecords))
		add := func(m planrecord.Mix, step uint64) error {
			earlier.add(m, step)
			return nil
		}
		err := changes(ctx, h.setup.Backends.Plan, from, h.applier.Planner.Next(), add)
		if err != nil {
			return state.MixResult{}, false, err
		}
		// Nothing was recorded in this term: findChange is called before each record.
		h.recent = recentChanges{list: earlier.list, read: true}
	}
	x, found := h.recent.find(m)
	return x, found, nil
}
