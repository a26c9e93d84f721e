package leader

import (
	"context"
	"time"

	"loaderd/internal/event"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// earlyFlushes tracks the flushes that a leader has recorded before the shuffle window was full.
type earlyFlushes struct {
	documents int64 // packed at the last early flush, or when this leader had replayed the log
	flushes   int
	step      uint64    // that a reader waits for
	since     time.Time // start of that wait; zero if no reader waits
}

// due returns the number of packed documents that the next early flush requires. The first one requires first
// documents. The number doubles, so a stream that fills the shuffle window slowly is flushed only a few times.
func (e *earlyFlushes) due(first int64) int64 {
	if first <= 0 {
		return 0
	}
	return e.documents + first<<min(e.flushes, 20)
}

// waited returns how long a reader has waited for a step.
func (e *earlyFlushes) waited(step uint64, waits bool) time.Duration {
	switch {
	case !waits:
		e.since = time.Time{}
		return 0
	case e.since.IsZero() || e.step != step:
		e.step, e.since = step, time.Now()
	}
	return time.Since(e.since)
}

// flushEarly records a flush for a waiting reader. With Options.Linger, it does so if the stream is quiet and a flush
// could fill a step. Until the shuffle window has filled once, Options.FirstStepQuiet and FirstStepDocuments decide.
// The clock only decides when the flush is recorded; the plan follows from the record.
func (l *loop) flushEarly(ctx context.Context) error {
	planner, lacks := l.applier.Planner, l.stats.Shortage
	_, packed := planner.Counts()
	if l.isBoundByLog() {
		return nil
	}
	waits := l.demand.hasWaitingReader()
	waited := l.earlyFlushes.waited(planner.Next(), waits)
	if l.applier.Ended || len(l.applier.Pending) > 0 || !waits {
		return nil
	}
	quiet, dry := l.dryDuration()
	isQuiet := func(bound time.Duration) bool { return bound > 0 && dry && quiet >= bound }
	early := lacks.Early && lacks.Flushes
	many := l.stats.FlushAt > 0 && packed.Documents >= l.stats.FlushAt && waited >= state.FirstStepWait
	at := planner.Clock()
	switch {
	case early && (isQuiet(l.setup.Options.FirstStepQuiet) || many):
		l.setup.Log.Info("packed buffered documents early for a waiting reader", event.FlushEarly, "document", at,
			"documents", packed.Documents-l.earlyFlushes.documents, "quiet", quiet.Round(time.Millisecond),
			"waited", waited.Round(time.Millisecond))
		l.earlyFlushes.documents = packed.Documents
		l.earlyFlushes.flushes++
	case isQuiet(l.setup.Options.Linger) && planner.Flushes():
		l.setup.Log.Info("no document arrives and a reader waits: packed pool and shuffle window", event.FlushIdle,
			"document", at,
			"quiet", quiet.Round(time.Millisecond))
	default:
		return nil
	}
	return l.commands.recordControl(ctx, planrecord.Flush{Arrival: at}, nil)
}
