package loader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"loaderd/loader/plan"
)

// watchInterval is how often a run looks whether the document stream is still what it was: one small request each time.
const watchInterval = 500 * time.Millisecond

// watch looks after the document stream. Another stream in its place ends the run, since the plan's references would name other documents
// there. What can be mended (changed settings, lost documents that may still be asked for) is noted for Stats, and the run goes on. A stream
// that is out of reach is not noted here: SourceStatus tells it.
func (l *leader) watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		state, err := l.edges.Documents.State(ctx)
		if err == nil {
			err = madeOf(l.header, state.Stream)
		}
		var mismatch *Error
		if errors.As(err, &mismatch) && mismatch.Reason == StreamMismatch {
			return err
		}
		if err != nil {
			continue
		}
		trouble := state.Trouble
		if trouble == nil && !l.first.Reaches(plan.Before(state.First)) {
			if trouble, err = l.gone(ctx, state.First); err != nil {
				continue // the plan log is out of reach: the next tick tries again
			}
		}
		l.notice(trouble)
	}
}

// gone says what is lost when the stream no longer holds documents below first; trouble is nil when nobody can ask for them any more.
func (l *leader) gone(ctx context.Context, first uint64) (trouble, err error) {
	step, replays := l.needed()
	if replays { // which steps are committed is not known yet
		return nil, nil
	}
	gone := plan.Before(first)
	floor, err := l.plan.floorBefore(ctx, step)
	if err != nil || floor.Reaches(gone) {
		return nil, err
	}
	oldest, err := l.plan.oldestStep(ctx, gone)
	if err != nil {
		return nil, err
	}
	return &Error{Reason: DocumentLost,
		Message: fmt.Sprintf("documents before %d are gone from document stream %s, deleted or purged by someone else, "+
			"and the run may still need those from %d on", first, l.header.Stream.Name, floor.Next()),
		Do: fmt.Sprintf("restore the stream from its backup; without it, resume from step %d or a later one", oldest),
		Facts: map[string]string{"first": strconv.FormatUint(first, 10), "floor": strconv.FormatUint(floor.Next(), 10),
			"oldest": strconv.FormatUint(oldest, 10)}}, nil
}

// notice remembers what is wrong with the document stream, nil when all is well, and logs it once.
func (l *leader) notice(trouble error) {
	text := ""
	if trouble != nil {
		text = trouble.Error()
	}
	l.mu.Lock()
	before := l.trouble
	l.trouble = text
	l.mu.Unlock()
	switch {
	case text == before:
	case text != "":
		l.log.Error("the document stream is not as the run needs it", "error", trouble)
	default:
		l.log.Info("the document stream is as the run needs it again")
	}
}
