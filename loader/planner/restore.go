package planner

import (
	"slices"

	"loaderd/loader/planrecord"
)

// Checkpoint returns the applier's state after the record of the plan log that tail describes.
func (a *Applier) Checkpoint(fingerprint string, tail planrecord.Tail) planrecord.Checkpoint {
	return planrecord.Checkpoint{
		Fingerprint: fingerprint, Tail: tail, Commits: a.Commits, WorldSizes: a.WorldSizes,
		Pending: slices.Clone(a.Pending), Planner: a.Planner.AppendState(nil),
	}
}

// Restore returns an applier that continues from a checkpoint of the run.
func Restore(h planrecord.Header, c planrecord.Checkpoint) (*Applier, error) {
	a, err := NewApplier(h)
	if err != nil {
		return nil, err
	}
	a.Commits, a.WorldSizes, a.Pending = c.Commits, c.WorldSizes, slices.Clone(c.Pending)
	if err := a.Planner.RestoreState(c.Planner); err != nil {
		return nil, err
	}
	a.UsedTokens = a.Planner.usedTokens()
	return a, nil
}
