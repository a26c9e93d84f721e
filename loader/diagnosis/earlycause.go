package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"loaderd/internal/humanize"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// flushesQuiet reports whether an early flush will be recorded once the stream has been quiet.
func (w *wait) flushesQuiet() bool {
	return w.Report.PlanStats.Shortage.Early && w.Options.FirstStepQuiet > 0
}

// firstStepCause returns the cause while the shuffle window has not filled and an early flush is possible.
func (w *wait) firstStepCause() *fault.Error {
	p, waits := &w.Report.PlanStats, w.Demand.HasWaiting(w.Planned)
	sentence := w.stepSubject()
	if left, ok := w.untilFlush(); ok && waits {
		sentence += " in about " + humanize.Time(left)
	}
	switch {
	case w.Planned > 0 && p.Shortage.Flushes:
		sentence += ": enough documents have arrived"
	case w.Planned > 0:
		sentence += ": more documents are needed"
	default:
		sentence += ": " + humanize.Are(int(p.PackCounts.Documents), "document") + " buffered"
	}
	detail := w.describeShortage()
	if p.Shortage.Flushes {
		var when []string
		if quiet := w.Options.FirstStepQuiet; quiet > 0 {
			when = append(when, fmt.Sprintf("after %s without a new one", humanize.Time(quiet)))
		}
		if p.FlushAt > p.PackCounts.Documents {
			when = append(when, fmt.Sprintf("at %s documents", humanize.Count(p.FlushAt)))
		}
		detail = "they are packed " + strings.Join(when, ", or ")
		if len(when) == 0 {
			detail = fmt.Sprintf("they are packed when a reader has waited for %s", humanize.Time(state.FirstStepWait))
		}
		if !waits {
			detail += ", for a reader that waits"
		}
	}
	return poolFillingError(w, sentence, detail,
		"wait, or end the run with loaderd seal if no further documents will arrive")
}

// untilFlush estimates the time until an early flush is due; ok is false without evidence.
func (w *wait) untilFlush() (left time.Duration, ok bool) {
	p, quiet := &w.Report.PlanStats, w.source.DrySince
	if p.Shortage.Flushes && w.Options.FirstStepQuiet > 0 && !quiet.IsZero() && time.Since(quiet) >= dryAfter {
		return max(w.Options.FirstStepQuiet-time.Since(quiet), 0), true
	}
	missing := max(p.FlushAt-p.PackCounts.Documents, p.Shortage.Documents)
	if p.FlushAt == 0 || missing <= 0 || w.Rates.Documents <= 0 {
		return 0, false
	}
	return time.Duration(float64(missing) / w.Rates.Documents * float64(time.Second)), true
}

// describeShortage describes what the next step lacks.
func (w *wait) describeShortage() string {
	s, more := w.Report.PlanStats.Shortage, ""
	if s.Documents > 0 {
		more = fmt.Sprintf(" (at least %s as long as those so far)", humanize.Things(int(s.Documents), "more document"))
	}
	if s.Early {
		place := "left"
		if w.Planned == 0 {
			place = "buffered"
		}
		return fmt.Sprintf("%s %s, a step has %s", humanize.Are(s.Packed, "row"), place, humanize.Count(s.Needed)) + more
	}
	text := fmt.Sprintf("%s needed, %s buffered", humanize.Things(s.Needed, "row"), humanize.Count(s.Packed))
	if s.Held > 0 {
		text += fmt.Sprintf(" and %s held back", humanize.Count(s.Held))
	}
	return text + more
}
