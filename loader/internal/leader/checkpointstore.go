package leader

import (
	"context"
	"sync"

	"loaderd/loader/backend"
)

// checkpointStore stores checkpoints of the planner and holds the list of valid ones.
type checkpointStore struct {
	backend backend.Checkpoints // may be nil
	term    *term

	// mu guards the fields below. No other mutex is locked while it is held.
	mu     sync.Mutex
	stored []backend.CheckpointInfo // by ascending step
	step   uint64                   // of the checkpoint that this leader stored last
	bytes  int64                    // size of that checkpoint
}

// put stores a checkpoint.
func (c *checkpointStore) put(ctx context.Context, step uint64, data []byte) error {
	stored, err := c.backend.Put(ctx, c.term.position, step, data)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored, c.step, c.bytes = stored, step, int64(len(data))
	return nil
}

// setList replaces the list of valid checkpoints.
func (c *checkpointStore) setList(stored []backend.CheckpointInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = stored
}

// list returns the valid checkpoints, by ascending step.
func (c *checkpointStore) list() []backend.CheckpointInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored
}

// last returns the step and the size in bytes of the checkpoint that this leader stored last.
func (c *checkpointStore) last() (step uint64, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step, c.bytes
}
