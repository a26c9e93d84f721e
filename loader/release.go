package loader

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"loaderd/loader/plan"
)

// Floors is where the runs of one document stream say what they still need.
type Floors interface {
	// Need records that this run needs the documents from sequence from on. Until a run has said so it needs all.
	Need(ctx context.Context, from uint64) error
	// Ends records that this run reads no document behind sequence at.
	Ends(ctx context.Context, at uint64) error
	// Purge removes the documents that no run needs, and returns the first sequence that the stream still holds.
	Purge(ctx context.Context) (first uint64, err error)
}

// Values of Options.Release.
const (
	ReleaseKeep  = "keep"
	ReleasePurge = "purge"
)

// releaseInterval is how often a run looks whether documents can go, at most.
const releaseInterval = time.Second

// releaseDocuments tells Floors what this run needs, and purges what no run does. Whatever goes wrong is tried again: documents that stay
// too long do no harm but to the disk.
//
// Behind each of its steps and those of storeCheckpoint:
//
//	step                             a crash leaves                       and the next start
//	a checkpoint is stored           one more than checkpointsKept        deletes the oldest when it stores its next one
//	the oldest checkpoint is deleted nothing to mend                      raises the floor up to what the oldest one needs now
//	the floor is raised              documents that no run needs          purges them, or another run that purges does
//	documents are purged             steps whose documents are gone       finds the stream's first document, and refuses readers those steps
//
// The floor is never raised above what the oldest stored checkpoint needs, and nothing is purged above the floor: so what a restart
// plans again is there, whichever checkpoint it finds usable.
func (l *leader) releaseDocuments(ctx context.Context) error {
	if l.edges.Floors == nil || l.options.Release != ReleasePurge {
		return l.claim(ctx)
	}
	tick := time.NewTicker(releaseInterval)
	defer tick.Stop()
	due := releases{said: plan.Before(l.plan.header.Start)}
	for {
		from, err := l.needs(ctx)
		if err == nil {
			if to := due.next(from, time.Now(), l.options.ReleaseAfter); !due.said.Reaches(to) {
				if err = l.purge(ctx, to); err == nil {
					due.done(to)
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("documents not released; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// releases are documents that are no longer needed and wait for their time to go.
type releases struct {
	said    plan.Position // what it covers has gone
	waiting []struct {
		floor plan.Position
		at    time.Time
	}
}

// next notes what is not needed now, and returns what may go: nobody has needed it for so long, nor does anyone who has come since.
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

// done notes what has gone.
func (s *releases) done(to plan.Position) {
	s.said = to
	for len(s.waiting) > 0 && to.Reaches(s.waiting[0].floor) {
		s.waiting = s.waiting[1:]
	}
}

// claim keeps other runs from purging what this one does not release.
func (l *leader) claim(ctx context.Context) error {
	if l.edges.Floors == nil {
		return nil
	}
	state, err := l.edges.Documents.State(ctx)
	if err == nil {
		err = l.edges.Floors.Need(ctx, max(state.First, l.plan.header.Start))
	}
	if err != nil && ctx.Err() == nil {
		l.log.Warn("other runs have not been told that this one keeps all documents", "error", err)
	}
	return nil
}

// purge gives up what a position covers, and removes what no other run needs of it.
func (l *leader) purge(ctx context.Context, floor plan.Position) error {
	if err := l.edges.Floors.Need(ctx, floor.Next()); err != nil {
		return err
	}
	first, err := l.edges.Floors.Purge(ctx)
	if err != nil {
		return err
	}
	return l.plan.release(ctx, floor.Most(plan.Before(first))) // other runs may purge up to what this one has said, at any time
}

// needed returns the first step that a keeper or a reader may still ask for. It is not known during a replay.
func (l *leader) needed() (step uint64, replays bool) {
	committed := l.plan.now().keepers.Committed()
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(committed, l.demand.Needed), l.replays
}

// needs returns the floor of all that this run may still need: what the steps need that a keeper or a reader may ask for, and
// what a restart from the oldest stored checkpoint would plan again.
func (l *leader) needs(ctx context.Context) (plan.Position, error) {
	step, replays := l.needed()
	l.mu.Lock()
	stored := l.stored
	l.mu.Unlock()
	if replays || len(stored) == 0 || step == 0 || stored[0] == 0 {
		return plan.Before(l.plan.header.Start), nil
	}
	floor, err := l.plan.floorBefore(ctx, step)
	if err != nil {
		return plan.Position{}, err
	}
	s, err := l.plan.step(ctx, stored[0]-1)
	if err != nil {
		return plan.Position{}, err
	}
	if l.config.Packing.Related() != nil { // it also reads again what the documents are about that waited then
		floor = floor.Least(s.Floor)
	}
	return floor.Least(s.Cursor), nil
}

// released is the error for a step whose documents are gone.
func released(step, oldest uint64) error {
	return &Error{Reason: StepReleased, Message: fmt.Sprintf("the documents of step %d are released: every keeper had committed it", step),
		Do:    fmt.Sprintf("ask for step %d or a later one; to read old steps again, commit later or set serve.release to keep", oldest),
		Facts: map[string]string{"step": strconv.FormatUint(step, 10), "oldest": strconv.FormatUint(oldest, 10)}}
}
