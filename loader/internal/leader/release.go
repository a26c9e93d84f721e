package leader

import (
	"context"
	"errors"
	"slices"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// releaseInterval is how often a run looks whether documents can go, at most.
const releaseInterval = time.Second

// releaseDocuments raises the low watermarks of this run, and purges what no run needs. A failure is retried: documents that stay
// too long do no harm but to the disk.
//
// Behind each of its steps and those of storeCheckpoint:
//
//	step                             a crash leaves                       and the next start
//	a checkpoint is stored           objects that do not count any more   deletes them when it claims the checkpoints
//	the floor is raised              documents that no run needs          purges them, or another run that purges does
//	documents are purged             steps whose documents are gone       finds the stream's first document, and refuses readers those steps
//
// The floor is never raised above what the oldest stored checkpoint needs, and nothing is purged above the floor: so what a restart
// plans again is there, whichever checkpoint it finds usable.
func (l *Leader) releaseDocuments(ctx context.Context) error {
	if l.Options.Release != backend.ReleasePurge {
		return nil // its floor stays where it was claimed
	}
	if err := waiting.Pause(ctx, l.releaseGrace()); err != nil {
		return err
	}
	tick := time.NewTicker(releaseInterval)
	defer tick.Stop()
	var due releases
	for {
		from, err := l.Needs(ctx)
		if err == nil {
			if to := due.next(from, time.Now(), l.Options.ReleaseAfter); !due.said.Reaches(to) {
				if err = l.Purge(ctx, to); err == nil {
					due.done(to)
				}
			}
		}
		if errors.Is(err, fault.ErrLeadershipLost) {
			return l.deposed(err)
		}
		if err != nil && ctx.Err() == nil {
			l.Log.Warn("documents not released; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// returnGrace is how long the leader of a plan with steps releases nothing at its start. Readers connect again meanwhile, or their daemons report them:
// what their jobs retain is not in the plan.
const returnGrace = 10 * time.Second

// releaseGrace returns how long the leader releases nothing at its start.
func (l *Leader) releaseGrace() time.Duration {
	switch {
	case l.found.Steps > 0:
		return returnGrace
	case l.Backends.Elector != nil:
		return state.HeartbeatTimeout
	}
	return 0
}

// releases are documents that are no longer needed and wait for their time to go.
type releases struct {
	said    plan.Position // documents that it covers were released already
	waiting []struct {
		floor plan.Position
		at    time.Time
	}
}

// next notes that the documents which floor covers are not needed now. It returns a position whose documents may go: they have not been
// needed for the time after, and are not needed now.
func (s *releases) next(floor plan.Position, now time.Time, after time.Duration) plan.Position {
	if n := len(s.waiting); !s.said.Reaches(floor) && (n == 0 || !s.waiting[n-1].floor.Reaches(floor)) {
		s.waiting = append(s.waiting, struct {
			floor plan.Position
			at    time.Time
		}{floor, now.Add(after)})
	}
	to := s.said
	for _, w := range s.waiting {
		if !now.Before(w.at) {
			to = to.Most(w.floor.Least(floor))
		}
	}
	return to
}

// done notes that the documents which to covers are released.
func (s *releases) done(to plan.Position) {
	s.said = to
	for len(s.waiting) > 0 && to.Reaches(s.waiting[0].floor) {
		s.waiting = s.waiting[1:]
	}
}

// Purge gives up what a position covers, and removes what no other run needs of it.
func (l *Leader) Purge(ctx context.Context, floor plan.Position) error {
	from, err := l.View.NeedsBehind(ctx, floor)
	if err != nil {
		return err
	}
	all, err := l.Streams.All(ctx, l.header)
	if err != nil {
		return err
	}
	for i, x := range all[:min(len(all), len(from))] {
		if x.LowWatermarks == nil {
			continue
		}
		first, err := x.LowWatermarks.Release(ctx, l.term, from[i])
		if err != nil {
			return err
		}
		from[i] = max(from[i], first)
	}
	return l.View.Release(ctx, from) // from now on other runs may purge up to the floor at any time
}

// needed returns the first step that a keeper, a reader or a job that has not committed may still ask for. While replays it is not known yet.
func (l *Leader) needed() (step uint64, replays bool) {
	keepers := l.View.Now().Keepers
	l.mu.Lock()
	defer l.mu.Unlock()
	_, retained := l.demand.Retained(keepers)
	step = min(keepers.Committed(), l.demand.Needed, retained)
	if !l.replays {
		l.given = max(l.given, step)
	}
	return step, l.replays
}

// retains returns the first step of which everything is there that a job needs which reads and has not committed; state.EveryStep for any other job.
func (l *Leader) retains(job string) uint64 {
	oldest := l.View.Now().Oldest
	l.mu.Lock()
	defer l.mu.Unlock()
	if x, ok := l.demand.Jobs[job]; ok {
		return max(x.From, l.given, oldest)
	}
	return state.EveryStep
}

// Needs returns the floor of all that this run may still need: what the steps need that a keeper or a reader may ask for, and
// what a restart from the oldest stored checkpoint would plan again.
func (l *Leader) Needs(ctx context.Context) (plan.Position, error) {
	step, replays := l.needed()
	l.mu.Lock()
	stored := l.stored
	l.mu.Unlock()
	if replays || len(stored) == 0 || step == 0 || stored[0].Step == 0 {
		return plan.Position{}, nil
	}
	floor, err := l.View.FloorBefore(ctx, step)
	if err != nil {
		return plan.Position{}, err
	}
	s, err := l.View.Step(ctx, stored[0].Step-1)
	if err != nil {
		return plan.Position{}, err
	}
	if l.relates() { // a restart also reads the packing hints of the documents that waited then
		floor = floor.Least(s.Floor)
	}
	return floor.Least(s.Cursor), nil
}

// relates reports whether documents are packed by what they are about, those of one source at least.
func (l *Leader) relates() bool {
	return l.Config.Packing.Related() != nil || slices.ContainsFunc(l.Streams.Infos(), func(s plan.SourceInfo) bool {
		return l.Config.PackingOf(s.Config).Related() != nil
	})
}
