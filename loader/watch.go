package loader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// watchInterval is how often a run looks whether the document stream is still what it was: one small request each time.
const watchInterval = 500 * time.Millisecond

// watch looks after the document stream. Another stream in its place ends the run, since the plan's references would name other documents
// there. What can be mended (settings that were changed, documents that are gone and may still be asked for) is noted for Stats; the run
// goes on. A stream that is out of reach is the source's to tell.
func (r *Run) watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		state, err := r.edges.Documents.State(ctx)
		if err == nil {
			err = r.header.madeOf(state.Stream)
		}
		var mismatch *Error
		if errors.As(err, &mismatch) && mismatch.Reason == StreamMismatch {
			return err
		}
		if err != nil {
			continue
		}
		trouble := state.Trouble
		if trouble == nil && state.First > r.first {
			if trouble, err = r.gone(ctx, state.First); err != nil {
				continue // the plan is out of reach: it is looked at again
			}
		}
		r.notice(trouble)
	}
}

// gone says that documents below first, which the stream no longer holds, may still be asked for.
func (r *Run) gone(ctx context.Context, first uint64) (trouble, err error) {
	step, replays := r.wanted()
	if replays { // what is committed is not known yet
		return nil, nil
	}
	floor, err := r.floorBefore(ctx, step)
	if err != nil || first <= floor {
		return nil, err
	}
	oldest, err := r.oldestStep(ctx, first)
	if err != nil {
		return nil, err
	}
	return &Error{Reason: DocumentLost,
		Message: fmt.Sprintf("documents before %d are gone from document stream %s, deleted or purged by someone else, and the run may still need those from %d on", first, r.header.Stream.Name, floor),
		Do:      fmt.Sprintf("restore the stream from its backup; without it, resume from step %d or a later one", oldest),
		Facts:   map[string]string{"first": strconv.FormatUint(first, 10), "floor": strconv.FormatUint(floor, 10), "oldest": strconv.FormatUint(oldest, 10)}}, nil
}

// notice remembers what is wrong with the document stream, nil when all is well, and logs it once.
func (r *Run) notice(trouble error) {
	text := ""
	if trouble != nil {
		text = trouble.Error()
	}
	r.mu.Lock()
	before := r.trouble
	r.trouble = text
	r.mu.Unlock()
	switch {
	case text == before:
	case text != "":
		r.log.Error("the document stream is not as the run needs it", "error", trouble)
	default:
		r.log.Info("the document stream is as the run needs it again")
	}
}
