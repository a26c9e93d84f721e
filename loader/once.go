package loader

import (
	"context"
	"errors"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// A trainer that decides on the mixture, is killed and resumes decides again: from the same losses on the same change. So a change may say behind how
// many steps it was decided on, and the plan has one for each such number at most. The plan itself is asked for it: a change that was decided on behind
// N steps stands behind the record of step N-1, seldom far.

// Once is a change of the mixture that the plan has for a decision.
type Once struct {
	Step    uint64             // the first one that can differ by it
	Weights map[string]float64 // as the plan has them, of all sources
	Again   bool               // the plan had it before it was asked for
}

// MixOnce is Mix for somebody who has seen so many steps of the run, and decides once at each number of steps: when the plan has a change that was decided
// on there, by whomever, that is the answer, and nothing is recorded.
func (r *Run) MixOnce(ctx context.Context, c mixture.Change, decided uint64, who string) (Once, error) {
	m, err := mixBy(c, who)
	if err != nil {
		return Once{}, err
	}
	log := r.office.edges.Plan
	x, found, err := changeDecided(ctx, log, decided)
	if found || err != nil {
		x.Again = found
		return x, err
	}
	m.Decided = &decided
	step, err := r.ask(ctx, m)
	if err != nil {
		return Once{}, err
	}
	if x, found, err := changeDecided(ctx, log, decided); found || err != nil { // who asked at the same moment may have been first
		return x, err
	}
	return Once{Step: step, Weights: c.Weights}, nil
}

// changeDecided looks for the change of the mixture that was decided on behind so many steps.
func changeDecided(ctx context.Context, log PlanLog, decided uint64) (x Once, found bool, err error) {
	from := uint64(2) // behind the header
	if decided > 0 {
		from, err = (&planReader{log: log}).locate(ctx, decided-1)
		if errors.Is(err, errNoStep) {
			return Once{}, false, nil
		}
		if err != nil {
			return Once{}, false, err
		}
	}
	next := decided
	err = log.Scan(ctx, from, func(position uint64, b []byte) error {
		e, err := plan.DecodeRecord(b)
		if err != nil {
			return damaged(position, err)
		}
		switch e := e.(type) {
		case plan.StepPart:
			next = e.Index + 1
		case plan.Mix:
			if e.Decided != nil && *e.Decided == decided {
				x, found = Once{Step: next, Weights: e.Weights}, true
				return errFound
			}
		}
		return nil
	})
	if err != nil && !found {
		return Once{}, false, err
	}
	return x, found, nil
}

// madeOnce are the last changes that a leader recorded and that are made once: one of them may not have been stored yet when the plan was looked through.
type madeOnce []onceAt

type onceAt struct{ decided, step uint64 }

// maxMadeOnce is far more than are asked for between a look at the plan and the record.
const maxMadeOnce = 256

func (m madeOnce) step(decided uint64) (step uint64, known bool) {
	for _, x := range m {
		if x.decided == decided {
			return x.step, true
		}
	}
	return 0, false
}

func (m *madeOnce) made(decided, step uint64) {
	if len(*m) == maxMadeOnce {
		*m = append((*m)[:0], (*m)[1:]...)
	}
	*m = append(*m, onceAt{decided, step})
}
