package retention

import (
	"context"
	"time"
)

// SetBeginTimeout changes how long a run may take to begin. restore undoes that.
func SetBeginTimeout(d time.Duration) (restore func()) {
	before := beginTimeout
	beginTimeout = d
	return func() { beginTimeout = before }
}

// SetDeletedTimeout changes how long a plan must be missing. restore undoes that.
func SetDeletedTimeout(d time.Duration) (restore func()) {
	before := deletedTimeout
	deletedTimeout = d
	return func() { deletedTimeout = before }
}

// Raise is the first half of Release, Purge the second.
func (f *LowWatermarks) Raise(ctx context.Context, term, from uint64) (uint64, error) {
	return f.raiseWatermark(ctx, term, from)
}

// Purge is the second half of Release.
func (f *LowWatermarks) Purge(ctx context.Context, to uint64) (uint64, error) {
	return f.purgeBelow(ctx, to)
}
