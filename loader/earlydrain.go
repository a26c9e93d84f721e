package loader

import (
	"context"
	"fmt"
	"strings"
	"time"

	"loaderd/internal/quantity"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
)

// firstStepWait is how long a reader must have waited for a step before the number of documents makes an early drain. A
// corpus that fills the shuffle window sooner is planned without one.
const firstStepWait = 30 * time.Second

// earlyDrains are the drains that a leader has recorded before the shuffle window was full.
type earlyDrains struct {
	documents int64 // that were packed at the last one, or when this leader had replayed the log
	drains    int
	step      uint64    // that a reader waits for ...
	since     time.Time // ... since then; zero while none waits
}

// due returns how many documents must be packed before the next early drain, where first of them make the first one.
// The number doubles, so that a stream that fills the shuffle window slowly is drained a few times at most.
func (e *earlyDrains) due(first int64) int64 {
	if first <= 0 {
		return 0
	}
	return e.documents + first<<min(e.drains, 20)
}

// waited returns how long a reader has waited for a step.
func (e *earlyDrains) waited(step uint64, waits bool) time.Duration {
	switch {
	case !waits:
		e.since = time.Time{}
		return 0
	case e.since.IsZero() || e.step != step:
		e.step, e.since = step, time.Now()
	}
	return time.Since(e.since)
}

// drainEarly records a drain for a reader that waits. With Options.Linger it does so when the stream is quiet and a drain
// could fill a step. While the shuffle window has not filled it does so by Options.FirstStepQuiet and FirstStepDocuments.
// The clock decides only when the drain is recorded: the plan follows from the record.
func (l *loop) drainEarly(ctx context.Context) error {
	planner, lacks := l.applier.Planner, l.figures.Lacks
	_, packed := planner.Counts()
	if l.repeats() {
		return nil
	}
	waits := l.waitedFor()
	waited := l.earlyDrains.waited(planner.Next(), waits)
	if l.applier.Ended || len(l.applier.Pending) > 0 || !waits {
		return nil
	}
	quiet, dry := l.dry()
	isQuiet := func(bound time.Duration) bool { return bound > 0 && dry && quiet >= bound }
	early := lacks.Early && lacks.Drains
	many := l.figures.DrainAt > 0 && packed.Documents >= l.figures.DrainAt && waited >= firstStepWait
	at := planner.Clock()
	switch {
	case early && (isQuiet(l.options.FirstStepQuiet) || many):
		l.log.Info("drained early for a waiting reader", "event", "early_drain", "document", at,
			"documents", packed.Documents-l.earlyDrains.documents, "quiet", quiet.Round(time.Millisecond),
			"waited", waited.Round(time.Millisecond))
		l.earlyDrains.documents = packed.Documents
		l.earlyDrains.drains++
	case isQuiet(l.options.Linger) && planner.Drains():
		l.log.Info("the stream is quiet and a reader waits: pool and window are drained", "document", at,
			"quiet", quiet.Round(time.Millisecond))
	default:
		return nil
	}
	return l.control(ctx, plan.Drain{At: at}, nil)
}

// drainsQuiet reports whether an early drain is recorded once the stream has been quiet.
func (w *wait) drainsQuiet() bool {
	return w.report.PlanStats.Lacks.Early && w.options.FirstStepQuiet > 0
}

// firstStep is the cause while the shuffle window has not filled and an early drain is possible.
func (w *wait) firstStep() *fault.Error {
	p, waits := &w.report.PlanStats, w.demand.Waits(w.planned)
	sentence := w.nextStep()
	if left, ok := w.untilDrain(); ok && waits {
		sentence += " in about " + quantity.Time(left)
	}
	switch {
	case w.planned > 0 && p.Lacks.Drains:
		sentence += ": enough documents are there"
	case w.planned > 0:
		sentence += ": more documents are needed"
	default:
		sentence += ": " + quantity.Are(int(p.Packed.Documents), "document") + " there"
	}
	detail := w.lacks()
	if p.Lacks.Drains {
		var when []string
		if quiet := w.options.FirstStepQuiet; quiet > 0 {
			when = append(when, fmt.Sprintf("after %s without a new one", quantity.Time(quiet)))
		}
		if p.DrainAt > p.Packed.Documents {
			when = append(when, fmt.Sprintf("at %s documents", quantity.Count(p.DrainAt)))
		}
		detail = "they are packed " + strings.Join(when, ", or ")
		if len(when) == 0 {
			detail = fmt.Sprintf("they are packed when a reader has waited for %s", quantity.Time(firstStepWait))
		}
		if !waits {
			detail += ", for a reader that waits"
		}
	}
	if skipped := w.skipped(); skipped != "" {
		detail += "; " + skipped
	}
	return stalled(fault.PoolFilling, sentence, detail, "wait, or end the run with loaderd seal when no more documents come", nil)
}

// untilDrain estimates how long it takes until an early drain is due; ok is false without evidence.
func (w *wait) untilDrain() (left time.Duration, ok bool) {
	p, quiet := &w.report.PlanStats, w.source.DrySince
	if p.Lacks.Drains && w.options.FirstStepQuiet > 0 && !quiet.IsZero() && time.Since(quiet) >= dryFor {
		return max(w.options.FirstStepQuiet-time.Since(quiet), 0), true
	}
	missing := max(p.DrainAt-p.Packed.Documents, p.Lacks.Documents)
	if p.DrainAt == 0 || missing <= 0 || w.rates.Documents <= 0 {
		return 0, false
	}
	return time.Duration(float64(missing) / w.rates.Documents * float64(time.Second)), true
}

// lacks describes what the next step lacks.
func (w *wait) lacks() string {
	s, more := w.report.PlanStats.Lacks, ""
	if s.Documents > 0 {
		more = fmt.Sprintf(" (at least %s as long as those so far)", quantity.Things(int(s.Documents), "more document"))
	}
	if s.Early {
		place := "left"
		if w.planned == 0 {
			place = "there"
		}
		return fmt.Sprintf("%s %s, a step has %s", quantity.Are(s.There, "row"), place, quantity.Count(s.Needed)) + more
	}
	text := fmt.Sprintf("%s needed, %s there", quantity.Things(s.Needed, "row"), quantity.Count(s.There))
	if s.Held > 0 {
		text += fmt.Sprintf(" and %s held back", quantity.Count(s.Held))
	}
	return text + more
}
