package checkpoints

import (
	"context"

	"loaderd/loader"
)

// Sweep is the second half of Claim, with the checkpoints that the first half returned.
func (c *Store) Sweep(ctx context.Context, term uint64, valid []loader.Stored) error {
	return c.sweep(ctx, manifest{c.plan.Fence(term), valid})
}
