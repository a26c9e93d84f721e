package planview

import (
	"context"
	"fmt"
	"slices"

	"loaderd/loader/backend"
)

// ListCheckpoints lists what is stored for a plan, which is bare or not.
func ListCheckpoints(ctx context.Context, e backend.Backends, bare bool) ([]backend.Stored, error) {
	if e.Checkpoints == nil {
		return nil, nil
	}
	stored, err := e.Checkpoints.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return slices.DeleteFunc(stored, func(s backend.Stored) bool { return bare && s.Earlier }), nil
}

// HeaderTerm is the term of who has written the header of a run that others will lead: every leader has a higher one.
const HeaderTerm = 1

// ClaimCheckpoints makes a term the one that speaks for the run. begun says that its plan holds nothing but its header
// and terms. It returns the checkpoints that count.
func ClaimCheckpoints(ctx context.Context, e backend.Backends, term uint64, begun bool) ([]backend.Stored, error) {
	if e.Checkpoints == nil {
		return nil, nil
	}
	return e.Checkpoints.Claim(ctx, term, begun)
}
