package loader

import (
	"context"

	"loaderd/loader/fault"
	"loaderd/loader/internal/forecast"
)

// Needs returns the first document that the run would retain now.
func (r *Run) Needs(ctx context.Context) (uint64, error) {
	l := r.coordinator.Leader()
	if l == nil {
		return 0, fault.ErrNoLeader
	}
	lowWatermark, err := l.Needs(ctx)
	return lowWatermark.Next(), err
}

// Release purges what the run does not need now, as the leader does periodically.
func (r *Run) Release(ctx context.Context) error {
	l := r.coordinator.Leader()
	if l == nil {
		return fault.ErrNoLeader
	}
	lowWatermark, err := l.Needs(ctx)
	if err != nil {
		return err
	}
	return l.Purge(ctx, lowWatermark)
}

// Effort bounds how many documents an estimate of a run's length samples and plans, until restore is called.
func Effort(sample, played int) (restore func()) {
	before := forecast.Limits
	forecast.Limits.Read, forecast.Limits.Sample, forecast.Limits.Played = sample, sample, played
	return func() { forecast.Limits = before }
}
