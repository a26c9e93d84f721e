package planview

import (
	"context"
	"fmt"
	"slices"

	"loaderd/loader/backend"
)

// ListCheckpoints lists the stored checkpoints of a plan. For a bare plan it omits those of earlier plans.
func ListCheckpoints(ctx context.Context, e backend.Backends, bare bool) ([]backend.CheckpointInfo, error) {
	if e.Checkpoints == nil {
		return nil, nil
	}
	stored, err := e.Checkpoints.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return slices.DeleteFunc(stored, func(s backend.CheckpointInfo) bool { return bare && s.FromEarlierPlan }), nil
}

// HeaderTerm is the term of the process that writes the header of a run which other daemons will lead. Every leader
// has a higher one.
const HeaderTerm = 1

// ClaimCheckpoints gives a term the exclusive right to store checkpoints. begun reports that the plan holds only its
// header and terms. It returns the valid checkpoints.
func ClaimCheckpoints(ctx context.Context, e backend.Backends, term uint64,
	begun bool) ([]backend.CheckpointInfo, error) {
	if e.Checkpoints == nil {
		return nil, nil
	}
	return e.Checkpoints.Claim(ctx, term, begun)
}
