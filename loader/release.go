package loader

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"
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

// release tells Floors what this run needs, and purges what no run does. Whatever goes wrong is tried again: documents that stay too
// long do no harm but to the disk.
func (r *Run) release(ctx context.Context) error {
	if r.edges.Floors == nil || r.options.Release != ReleasePurge {
		return r.hold(ctx)
	}
	tick := time.NewTicker(releaseInterval)
	defer tick.Stop()
	due := releases{said: r.header.Start}
	for {
		from, err := r.needs(ctx)
		if err == nil {
			if to := due.next(from, time.Now(), r.options.ReleaseAfter); to > due.said {
				if err = r.purge(ctx, to); err == nil {
					due.done(to)
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("documents not released; trying again", "error", err)
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
	said    uint64 // those below it have gone
	waiting []struct {
		from uint64
		at   time.Time
	}
}

// next notes that documents from one on are needed now, and returns the one below which all may go: nobody has needed them for so long,
// nor does anyone who has come since.
func (s *releases) next(from uint64, now time.Time, after time.Duration) uint64 {
	if n := len(s.waiting); from > s.said && (n == 0 || from > s.waiting[n-1].from) {
		s.waiting = append(s.waiting, struct {
			from uint64
			at   time.Time
		}{from, now.Add(after)})
	}
	to := s.said
	for _, w := range s.waiting {
		if !now.Before(w.at) {
			to = max(to, min(w.from, from))
		}
	}
	return to
}

// done notes that the documents below one have gone.
func (s *releases) done(to uint64) {
	s.said = to
	for len(s.waiting) > 0 && s.waiting[0].from <= to {
		s.waiting = s.waiting[1:]
	}
}

// hold keeps other runs from purging what this one does not release.
func (r *Run) hold(ctx context.Context) error {
	if r.edges.Floors == nil {
		return nil
	}
	state, err := r.edges.Documents.State(ctx)
	if err == nil {
		err = r.edges.Floors.Need(ctx, max(state.First, r.header.Start))
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("other runs have not been told that this one keeps all documents", "error", err)
	}
	return nil
}

func (r *Run) purge(ctx context.Context, from uint64) error {
	if err := r.edges.Floors.Need(ctx, from); err != nil {
		return err
	}
	first, err := r.edges.Floors.Purge(ctx)
	if err != nil {
		return err
	}
	return r.sees(ctx, max(first, from)) // other runs may purge up to what this one has said, at any time
}

// sees notes which steps can still be read when the stream holds documents from first on.
func (r *Run) sees(ctx context.Context, first uint64) error {
	oldest, err := r.oldestStep(ctx, first)
	if err == nil {
		r.update(func() { r.oldest = max(r.oldest, oldest) })
	}
	return err
}

// oldestStep returns the first step that needs no document below first, nor does any after it.
func (r *Run) oldestStep(ctx context.Context, first uint64) (uint64, error) {
	if first <= r.header.Start {
		return 0, nil
	}
	var failed error
	planned := r.Info().Planned
	n := sort.Search(int(planned), func(step int) bool {
		floor, err := r.floorBefore(ctx, uint64(step))
		if err != nil {
			failed = err
		}
		return floor >= first
	})
	return uint64(n), failed
}

// wanted returns the first step that a keeper or a reader may still ask for. It is not known during a replay.
func (r *Run) wanted() (step uint64, replays bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	step = r.keepers.Committed()
	for x := range r.readers {
		step = min(step, x.reads)
	}
	return step, r.replays
}

// needs returns the oldest document that this run may still need: what the steps need that a keeper or a reader may ask for, and
// what a restart from the oldest kept checkpoint would plan again.
func (r *Run) needs(ctx context.Context) (uint64, error) {
	step, replays := r.wanted()
	r.mu.Lock()
	kept := r.kept
	r.mu.Unlock()
	if replays || len(kept) == 0 || step == 0 || kept[0] == 0 {
		return r.header.Start, nil
	}
	floor, err := r.floorBefore(ctx, step)
	if err != nil {
		return 0, err
	}
	s, err := r.Step(ctx, kept[0]-1)
	if err != nil {
		return 0, err
	}
	if r.config.Packing.Related() != nil { // it also reads again what the documents are about that waited then
		floor = min(floor, s.Floor)
	}
	return min(floor, s.Cursor+1), nil
}

// floorBefore returns the oldest document that a step from the given one on may need.
func (r *Run) floorBefore(ctx context.Context, step uint64) (uint64, error) {
	if step == 0 {
		return r.header.Start, nil
	}
	s, err := r.Step(ctx, step-1)
	if err != nil {
		return 0, fmt.Errorf("read the floor of step %d: %w", step, err)
	}
	return s.Floor, nil
}

// released is the error for a step whose documents are gone.
func released(step, oldest uint64) error {
	return &Error{Reason: StepReleased, Message: fmt.Sprintf("the documents of step %d are released: every keeper had committed it", step),
		Do:    fmt.Sprintf("ask for step %d or a later one; to read old steps again, commit later or set serve.release to keep", oldest),
		Facts: map[string]string{"step": strconv.FormatUint(step, 10), "oldest": strconv.FormatUint(oldest, 10)}}
}

// lost turns the loss of a document of a committed step into the news that the step is released.
func (r *Run) lost(step uint64, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Reason != DocumentLost {
		return err
	}
	info := r.Info()
	if oldest := max(info.Committed, info.Oldest); step < oldest {
		return released(step, oldest)
	}
	return err
}
