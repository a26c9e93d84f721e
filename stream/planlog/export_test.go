package planlog

import (
	"context"
	"time"

	"loaderd/loader"
)

// SetBeginPatience changes how long a run may take to begin, and returns what changes it back.
func SetBeginPatience(d time.Duration) (restore func()) {
	before := beginPatience
	beginPatience = d
	return func() { beginPatience = before }
}

// SetGonePatience changes how long a plan has to be missing, and returns what changes it back.
func SetGonePatience(d time.Duration) (restore func()) {
	before := gonePatience
	gonePatience = d
	return func() { gonePatience = before }
}

// Sweep is the second half of Claim, with what its first half found to count.
func (c *Checkpoints) Sweep(ctx context.Context, term uint64, counted []loader.Stored) error {
	return c.sweep(ctx, manifest{c.plan.fence(term), counted})
}

// GiveUp is the first half of Release, Remove the second.
func (f *Floors) GiveUp(ctx context.Context, term, from uint64) (uint64, error) {
	return f.giveUp(ctx, term, from)
}

// Remove is the second half of Release.
func (f *Floors) Remove(ctx context.Context, to uint64) (uint64, error) { return f.purge(ctx, to) }

// Learn tells a log where it ends, at least.
func Learn(l *Log, end uint64) { l.learn(end) }
