package checkpoints

import (
	"context"

	"loaderd/loader/backend"
)

// Sweep is the second half of Claim, with the checkpoints that the first half returned.
func (c *Store) Sweep(ctx context.Context, term uint64, valid []backend.Stored) error {
	return c.sweep(ctx, manifest{c.plan.Fence(term), valid})
}
