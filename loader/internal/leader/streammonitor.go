package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/fault"
	"loaderd/loader/internal/forecast"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
)

// monitorInterval is the time between two checks of the document streams. A check costs one small request per stream.
const monitorInterval = 500 * time.Millisecond

// streamMonitor checks whether the document streams still hold what the run needs.
type streamMonitor struct {
	header         planrecord.Header
	firstDocuments planview.Needs // first document that each stream held at the start
	streams        *planview.Streams
	view           *planview.View
	term           *term
	status         *status
	fills          *streamFills
	length         *forecast.Estimator
	requests       chan<- Command                     // to the loop
	neededStep     func() (step uint64, replays bool) // by the retention
	log            *slog.Logger
}

// run checks the document streams until ctx is done. If a stream was replaced by another one, the run ends, because
// the plan's references would name other documents there. Trouble that can be fixed is published, and the run
// continues: changed settings, or lost documents that may still be requested. An unreachable stream is not reported
// here but in document.SourceStatus.
func (m *streamMonitor) run(ctx context.Context) error {
	tick := time.NewTicker(monitorInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		all, err := m.streams.RunStreams(ctx, m.header)
		if err != nil {
			continue
		}
		var trouble error
		for source, x := range all {
			one, err := m.checkStream(ctx, source, x)
			if err != nil {
				return err
			}
			if trouble == nil {
				trouble = one
			}
		}
		m.publishTrouble(trouble)
	}
}

// checkStream checks one stream. err is permanent; trouble can be fixed.
func (m *streamMonitor) checkStream(ctx context.Context, source int, x planview.RunStream) (trouble, err error) {
	state, err := x.Documents.State(ctx)
	if err == nil {
		err = planview.CheckStream(m.header.Run, x.SourceBegin.Stream, state.Stream)
	}
	var mismatch *fault.Error
	if errors.As(err, &mismatch) && mismatch.Reason == fault.StreamMismatch {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	m.length.RecordGrowth(source, state.Last)
	m.fills.measure(source, x.Name, state)
	if state.Sealed {
		if err := m.requestSeal(ctx, source); err != nil {
			return nil, nil
		}
	}
	if state.Problem == nil && (source >= len(m.firstDocuments) || m.firstDocuments[source] < state.First) {
		trouble, err = m.checkLostDocuments(ctx, source, x, state.First)
		if err != nil {
			return nil, nil // the plan log is unreachable, or the lease is lost: the next check repeats this
		}
		return trouble, nil
	}
	return state.Problem, nil
}

// requestSeal asks the loop to record a source's end, if the plan does not have it yet.
func (m *streamMonitor) requestSeal(ctx context.Context, source int) error {
	if !m.status.isOpen(source) {
		return nil
	}
	select {
	case m.requests <- Command{Entry: planrecord.SealSource{Source: source}, reply: make(chan Result, 1)}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkLostDocuments returns what is lost when a stream no longer holds documents below first. Trouble is nil if no job
// can request them again. Only a daemon that still leads may decide this: documents purged by its successor look lost
// to a daemon that has lost its lease. The lease is verified after first was read. While it was held, no other daemon
// could purge.
func (m *streamMonitor) checkLostDocuments(ctx context.Context, source int, x planview.RunStream, first uint64) (
	trouble, err error,
) {
	if err := m.term.verify(ctx); err != nil {
		return nil, err
	}
	step, replays := m.neededStep()
	if replays { // the committed steps are not known yet
		return nil, nil
	}
	present := make(planview.Needs, source+1) // all documents of the other sources
	present[source] = first
	need, err := m.view.NeedsOfStep(ctx, step)
	if err != nil || need.IsCoveredBy(present) || source >= len(need) {
		return nil, err
	}
	oldest, err := m.view.OldestStep(ctx, present)
	if err != nil {
		return nil, err
	}
	return &fault.Error{Reason: fault.DocumentLost,
		Message: fmt.Sprintf("documents before %d are gone from document stream %s, deleted or purged by "+
			"someone else, and the run may still need those from %d on",
			first, x.SourceBegin.Stream.Name, need[source]),
		Advice: fmt.Sprintf("restore the stream from its backup; without it, resume from step %d or a later one", oldest),
		Facts: map[string]string{"first": strconv.FormatUint(first, 10),
			"low_watermark": strconv.FormatUint(need[source], 10),
			"oldest":        strconv.FormatUint(oldest, 10)}}, nil
}

// publishTrouble publishes the problem with the document streams, nil if none, and logs changes.
func (m *streamMonitor) publishTrouble(trouble error) {
	text := ""
	if trouble != nil {
		text = trouble.Error()
	}
	switch before := m.status.setTrouble(text); {
	case text == before:
	case text != "":
		m.log.Error("document stream does not match the run", event.StreamMismatch, "error", trouble)
	default:
		m.log.Info("document stream matches the run again", event.StreamMatches)
	}
}
