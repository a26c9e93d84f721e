package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
)

// watchInterval is how often a run looks whether the document stream is still what it was: one small request each time.
const watchInterval = 500 * time.Millisecond

// watch looks after the document stream. Another stream in its place ends the run, since the plan's references would name other documents
// there. What can be mended (changed settings, lost documents that may still be asked for) is noted for Stats, and the run goes on. A stream
// that is out of reach is not noted here: SourceStatus tells it.
func (l *Leader) watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		all, err := l.Streams.All(ctx, l.header)
		if err != nil {
			continue
		}
		var trouble error
		for source, x := range all {
			one, err := l.look(ctx, source, x)
			if err != nil {
				return err
			}
			if trouble == nil {
				trouble = one
			}
		}
		l.notice(trouble)
	}
}

// look looks after one stream. An error is final; trouble can be mended.
func (l *Leader) look(ctx context.Context, source int, x planview.RunStream) (trouble, err error) {
	state, err := x.Documents.State(ctx)
	if err == nil {
		err = planview.MadeOf(l.header.Run, x.SourceBegin.Stream, state.Stream)
	}
	var mismatch *fault.Error
	if errors.As(err, &mismatch) && mismatch.Reason == fault.StreamMismatch {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	l.length.Grows(source, state.Last)
	l.measureFill(source, x.Name, state)
	if state.Sealed {
		if err := l.ends(ctx, source); err != nil {
			return nil, nil
		}
	}
	if state.Trouble == nil && (source >= len(l.first) || l.first[source] < state.First) {
		trouble, err = l.gone(ctx, source, x, state.First)
		if err != nil {
			return nil, nil // the plan log is out of reach, or the lease is lost: the next tick tries again
		}
		return trouble, nil
	}
	return state.Trouble, nil
}

// ends asks for the record of a source's end, where the plan has none yet.
func (l *Leader) ends(ctx context.Context, source int) error {
	l.mu.Lock()
	known := source >= len(l.figures.Sources) || l.figures.Sources[source].Sealed || l.replays
	l.mu.Unlock()
	if known {
		return nil
	}
	select {
	case l.requests <- Command{Entry: plan.SealSource{Source: source}, reply: make(chan Result, 1)}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gone returns what is lost when a stream no longer holds documents below first; trouble is nil when no job can ask for them
// again. Only a daemon that still leads decides: to a deposed one, documents that its successor has purged look lost. The
// lease is verified here, after first was read: while it was held, no other daemon could purge.
func (l *Leader) gone(ctx context.Context, source int, x planview.RunStream, first uint64) (trouble, err error) {
	if l.sure != nil {
		if err := l.sure(ctx); err != nil {
			return nil, err
		}
	}
	step, replays := l.needed()
	if replays { // which steps are committed is not known yet
		return nil, nil
	}
	there := make(planview.Needs, source+1) // of the others all
	there[source] = first
	need, err := l.View.NeedsOf(ctx, step)
	if err != nil || need.Reaches(there) || source >= len(need) {
		return nil, err
	}
	oldest, err := l.View.OldestStep(ctx, there)
	if err != nil {
		return nil, err
	}
	return &fault.Error{Reason: fault.DocumentLost,
		Message: fmt.Sprintf("documents before %d are gone from document stream %s, deleted or purged by someone else, "+
			"and the run may still need those from %d on", first, x.SourceBegin.Stream.Name, need[source]),
		Do: fmt.Sprintf("restore the stream from its backup; without it, resume from step %d or a later one", oldest),
		Facts: map[string]string{"first": strconv.FormatUint(first, 10), "floor": strconv.FormatUint(need[source], 10),
			"oldest": strconv.FormatUint(oldest, 10)}}, nil
}

// notice remembers what is wrong with the document stream, nil when all is well, and logs it once.
func (l *Leader) notice(trouble error) {
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
		l.Log.Error("the document stream is not as the run needs it", "error", trouble)
	default:
		l.Log.Info("the document stream is as the run needs it again")
	}
}
