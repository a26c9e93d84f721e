package loader

import "context"

// Needs is what the run would keep now.
func (r *Run) Needs(ctx context.Context) (uint64, error) { return r.needs(ctx) }
