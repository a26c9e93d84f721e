package leader

import (
	"context"
	"errors"
	"slices"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// purgeInterval is the minimum time between two checks whether documents can be purged.
const purgeInterval = time.Second

// retention raises the low watermarks of the run, and purges the documents below them that no run needs.
type retention struct {
	setup       Setup
	header      planrecord.Header
	term        *term
	status      *status
	demand      *readerDemand
	checkpoints *checkpointStore
}

// run raises the low watermarks of this run, and purges documents that no run needs, until ctx is done. It starts after
// grace. A failure is retried: documents that are kept too long only occupy disk space.
//
// Crash safety, after each step of run and of uploads:
//
//	step                           a crash leaves                the next start
//	a checkpoint is stored         superseded objects            deletes them when it claims the checkpoints
//	the low watermark is raised    documents that no run needs   purges them, or another run that purges does
//	documents are purged           steps without documents       finds the first document, rejects the steps
//
// The low watermark is never raised above what the oldest stored checkpoint needs, and nothing is purged above it. So
// the stream has all documents that a restart replays, whichever checkpoint it uses.
func (r *retention) run(ctx context.Context, grace time.Duration) error {
	if r.setup.Options.Retention != backend.RetentionPurge {
		return nil // the low watermark stays where it was claimed
	}
	if err := waiting.Sleep(ctx, grace); err != nil {
		return err
	}
	tick := time.NewTicker(purgeInterval)
	defer tick.Stop()
	var due purgeSchedule
	for {
		from, err := r.lowWatermark(ctx)
		if err == nil {
			if to := due.nextPurge(from, time.Now(), r.setup.Options.PurgeDelay); !due.purged.Reaches(to) {
				if err = r.purge(ctx, to); err == nil {
					due.recordPurge(to)
				}
			}
		}
		if errors.Is(err, fault.ErrLeadershipLost) {
			return r.term.leadershipError(err)
		}
		if err != nil && ctx.Err() == nil {
			r.setup.Log.Warn("cannot purge documents, trying again", event.RetentionFailed, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// readerGrace is how long the leader of a plan with steps purges nothing after its start. In this time readers
// reconnect or their daemons report them, because the plan does not contain what their jobs retain.
const readerGrace = 10 * time.Second

// grace returns how long the leader of a plan with that many steps purges nothing after its start.
func (r *retention) grace(steps uint64) time.Duration {
	switch {
	case steps > 0:
		return readerGrace
	case r.setup.Backends.Elector != nil:
		return state.HeartbeatTimeout
	}
	return 0
}

// purge marks the documents that a position covers as unneeded, and purges those that no other run needs.
func (r *retention) purge(ctx context.Context, lowWatermark plan.Position) error {
	from, err := r.setup.View.NeedsAfter(ctx, lowWatermark)
	if err != nil {
		return err
	}
	all, err := r.setup.Streams.RunStreams(ctx, r.header)
	if err != nil {
		return err
	}
	for i, x := range all[:min(len(all), len(from))] {
		if x.LowWatermarks == nil {
			continue
		}
		first, err := x.LowWatermarks.Advance(ctx, r.term.position, from[i])
		if err != nil {
			return err
		}
		from[i] = max(from[i], first)
	}
	return r.setup.View.UpdateOldest(ctx, from) // from now on other runs may purge up to the low watermark at any time
}

// neededStep returns the first step that a job, a reader or a job that has not committed may still request. During
// the replay it is not known yet.
func (r *retention) neededStep() (step uint64, replays bool) {
	replays = r.status.replaying()
	return r.demand.neededStep(replays), replays
}

// lowWatermark returns the oldest position that the run may still need. Steps that a job or a reader may request
// need it, and so does the replay after a restart from the oldest stored checkpoint.
func (r *retention) lowWatermark(ctx context.Context) (plan.Position, error) {
	step, replays := r.neededStep()
	stored := r.checkpoints.list()
	if replays || len(stored) == 0 || step == 0 || stored[0].Step == 0 {
		return plan.Position{}, nil
	}
	lowWatermark, err := r.setup.View.LowWatermarkBefore(ctx, step)
	if err != nil {
		return plan.Position{}, err
	}
	s, err := r.setup.View.Step(ctx, stored[0].Step-1)
	if err != nil {
		return plan.Position{}, err
	}
	if r.usesHints() { // a restart also reads the packing hints of the documents buffered then
		lowWatermark = lowWatermark.Min(s.LowWatermark)
	}
	return lowWatermark.Min(s.Cursor), nil
}

// usesHints reports whether the documents of any source are packed by packing hints.
func (r *retention) usesHints() bool {
	c := &r.setup.Config
	return c.Packing.SimilarityConfig() != nil || slices.ContainsFunc(r.setup.Streams.SourceInfos(),
		func(s plan.SourceInfo) bool {
			return c.SourcePacking(s.Config).SimilarityConfig() != nil
		})
}

// purgeSchedule holds positions below which documents are no longer needed, until their retention time has passed.
type purgeSchedule struct {
	purged  plan.Position // covers the documents that were released already
	entries []struct {
		lowWatermark plan.Position
		at           time.Time
	}
}

// nextPurge records that the documents which lowWatermark covers are currently unneeded. It returns the position up to
// which documents may be purged: they have been unneeded for the period after, and still are.
func (s *purgeSchedule) nextPurge(lowWatermark plan.Position, now time.Time, after time.Duration) plan.Position {
	if n := len(s.entries); !s.purged.Reaches(lowWatermark) &&
		(n == 0 || !s.entries[n-1].lowWatermark.Reaches(lowWatermark)) {
		s.entries = append(s.entries, struct {
			lowWatermark plan.Position
			at           time.Time
		}{lowWatermark, now.Add(after)})
	}
	to := s.purged
	for _, w := range s.entries {
		if !now.Before(w.at) {
			to = to.Max(w.lowWatermark.Min(lowWatermark))
		}
	}
	return to
}

// recordPurge records that the documents which to covers were released.
func (s *purgeSchedule) recordPurge(to plan.Position) {
	s.purged = to
	for len(s.entries) > 0 && to.Reaches(s.entries[0].lowWatermark) {
		s.entries = s.entries[1:]
	}
}
