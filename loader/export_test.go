package loader

import "context"

// Needs is what the run would keep now.
func (r *Run) Needs(ctx context.Context) (uint64, error) {
	floor, err := r.leader.needs(ctx)
	return floor.Next(), err
}

// Release purges what the run does not need now, as it does by itself now and then.
func (r *Run) Release(ctx context.Context) error {
	floor, err := r.leader.needs(ctx)
	if err != nil {
		return err
	}
	return r.leader.purge(ctx, floor)
}
