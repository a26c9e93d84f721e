package planner

import (
	"slices"

	"loaderd/loader/plan"
)

// Checkpoint returns the state behind a record of the log of a run's plan.
func (a *Applier) Checkpoint(fingerprint string, tail plan.Tail) plan.Checkpoint {
	return plan.Checkpoint{
		Fingerprint: fingerprint, Tail: tail, Keepers: a.Keepers, Pending: slices.Clone(a.Pending),
		Planner: a.Planner.AppendState(nil),
	}
}

// Restore returns an applier that goes on where a checkpoint of the run was taken.
func Restore(h plan.Header, c plan.Checkpoint) (*Applier, error) {
	a, err := NewApplier(h)
	if err != nil {
		return nil, err
	}
	a.Keepers, a.Pending = c.Keepers, slices.Clone(c.Pending)
	if err := a.Planner.RestoreState(c.Planner); err != nil {
		return nil, err
	}
	a.Fed = a.Planner.accounted()
	return a, nil
}
