package checkpoints

import (
	"context"

	"loaderd/loader/backend"
)

// Sweep deletes invalid objects as the first Put after a Claim does, given the checkpoints that Claim returned.
func (c *Store) Sweep(ctx context.Context, term uint64, valid []backend.CheckpointInfo) error {
	return c.sweep(ctx, manifest{c.plan.Fence(term), valid})
}
