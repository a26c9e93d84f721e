package loader

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"loaderd/loader/plan"
)

// dryFor is how long a stream must have had nothing new before it is called dry: one that trickles is not dry between its documents.
const dryFor = 5 * time.Second

// explain says why a step is not there yet, as its reader would be told; nil when it is, or when the run has ended.
func (f *follower) explain(step uint64) *Error {
	now := f.plan.now()
	var e *Error
	switch {
	case step < now.steps || now.ended:
		return nil
	case errors.As(now.failed, &e):
		return e
	}
	return f.cause(step)
}

// cause says why a step has not come: it looks at everything between reader and document stream in turn, and names the first that stands still.
func (f *follower) cause(step uint64) *Error {
	w := wait{step: step, report: f.leader.report(), config: f.config, options: f.options}
	if step >= w.report.Wanted+uint64(f.options.Ahead) {
		w.brake = w.report.Slowest
	}
	if w.report.Source != nil {
		w.source = *w.report.Source
	}
	facts := w.facts(f.plan.planned())
	for _, look := range []func() *Error{w.leaderless, w.storing, w.opening, w.replaying, w.behind, w.idle, w.down, w.dry, w.tokenizing, w.filling} {
		if e := look(); e != nil {
			for k, v := range e.Facts {
				facts[k] = v
			}
			e.Facts = facts
			return e
		}
	}
	panic("loader: filling is always a cause")
}

// wait is what is known about a wait for a step. Each of its methods up to filling looks at one possible cause and returns nil when it
// is not that.
type wait struct {
	step    uint64
	report  report
	source  SourceStatus
	brake   *ReaderStat // reader that holds the plan back
	config  plan.Config
	options Options
}

func (w *wait) facts(planned uint64) map[string]string {
	r := &w.report.PlanStats
	facts := map[string]string{
		"step":          strconv.FormatUint(w.step, 10),
		"planned":       strconv.FormatUint(planned, 10),
		"last_document": strconv.FormatUint(w.source.Last, 10),
		"read_document": r.Cursor.String(),
		"pool":          fmt.Sprintf("%d of %d", r.Pool.Pieces, w.config.Packing.Pool),
		"held_rows":     fmt.Sprintf("%d (%d of %d pieces)", r.Pool.Held.Rows, r.Pool.Held.Pieces, w.config.Packing.Relevant().Held()),
		"window":        fmt.Sprintf("%d of %d", r.Window, w.config.Shuffle.Window),
		"queued_rows":   queueNote(r.Queues),
	}
	note(r.Lacks, facts)
	return facts
}

// asks is the advice when the reader can do nothing else.
const asks = "wait and ask again"

func (w *wait) leaderless() *Error {
	r := &w.report
	if !r.Elsewhere || r.Silent < silentAfter {
		return nil
	}
	return &Error{Reason: NotLeading, Message: fmt.Sprintf("no daemon has been heard to plan the run for %s", r.Silent.Round(time.Millisecond)),
		Do: "wait: another daemon takes over within seconds; when none does, look at the daemons' logs and the JetStream servers"}
}

func (w *wait) storing() *Error {
	if w.report.Storing <= time.Second {
		return nil
	}
	return &Error{Reason: PlanLogDown, Message: fmt.Sprintf("storing the plan has taken %s", w.report.Storing.Round(time.Millisecond)),
		Do: "check the JetStream server and its disk"}
}

func (w *wait) opening() *Error {
	if w.report.Source != nil {
		return nil
	}
	return &Error{Reason: SourceDown, Message: "the document stream has not been opened yet", Do: "check the NATS server; the daemon connects by itself"}
}

func (w *wait) replaying() *Error {
	if !w.report.Replays || !w.source.DownSince.IsZero() {
		return nil
	}
	return &Error{Reason: Replaying, Message: fmt.Sprintf("the daemon re-plans after a restart: it is at document %s", w.report.PlanStats.Cursor), Do: asks}
}

func (w *wait) behind() *Error {
	b := w.brake
	if b == nil || w.report.Replays {
		return nil
	}
	return &Error{Reason: RankBehind, Do: "look at that rank; the plan goes on when it does",
		Message: fmt.Sprintf("rank %d of %d has asked for no step beyond %d, and %d steps are planned beyond that", b.Rank, b.World, b.Step, w.options.Ahead),
		Facts:   map[string]string{"rank": strconv.Itoa(b.Rank), "world": strconv.Itoa(b.World), "rank_step": strconv.FormatUint(b.Step, 10)}}
}

func (w *wait) down() *Error {
	s := w.source
	if s.DownSince.IsZero() {
		return nil
	}
	return &Error{Reason: SourceDown, Do: "check the NATS server; the daemon reconnects by itself",
		Message: fmt.Sprintf("%s has been out of reach for %s (%s)", w.stream(), time.Since(s.DownSince).Round(time.Millisecond), s.DownReason),
		Facts:   map[string]string{"down_since": s.DownSince.UTC().Format(time.RFC3339Nano)}}
}

func (w *wait) dry() *Error {
	s, lacks := w.source, w.report.PlanStats.Lacks
	if s.DrySince.IsZero() || s.Delivered < s.Fetched || time.Since(s.DrySince) < min(dryFor, w.options.Stall/2) {
		return nil
	}
	quiet := time.Since(s.DrySince).Round(time.Millisecond)
	message := fmt.Sprintf("%s has had nothing new for %s; document %d was its last, and the step is not full: %s", w.stream(), quiet, s.Last, lacks)
	if s.Last == 0 {
		message = fmt.Sprintf("%s has been empty for %s: %s", w.stream(), quiet, lacks)
	}
	facts := map[string]string{"dry_since": s.DrySince.UTC().Format(time.RFC3339Nano)}
	if x := w.wanted(); x != nil {
		facts["source"] = x.Name
		if x.Epochs.Another(x.Epoch + 1) {
			message += fmt.Sprintf("; its next epoch begins when it is sealed (epochs: %s)", x.Epochs)
		}
	}
	return &Error{Reason: SourceDry, Message: message, Do: w.whenDry(lacks.Drains), Facts: facts}
}

// wanted returns the source that comes next; nil with one document stream.
func (w *wait) wanted() *SourceStats {
	p := &w.report.PlanStats
	if p.Wants >= len(p.Sources) {
		return nil
	}
	return &p.Sources[p.Wants]
}

// stream names the document stream that the plan waits for.
func (w *wait) stream() string {
	if x := w.wanted(); x != nil {
		return "source " + x.Name
	}
	return "the document stream"
}

// idle: no source is read before somebody changes the mixture, or one that rests has documents.
func (w *wait) idle() *Error {
	p := &w.report.PlanStats
	if !p.Idle {
		return nil
	}
	var rest []string
	for _, s := range p.Sources {
		if s.Resting && !s.Removed {
			rest = append(rest, s.Name)
		}
	}
	if len(rest) > 0 {
		return &Error{Reason: SourceDry, Message: fmt.Sprintf("no source has documents: %s rest until they have", strings.Join(rest, ", ")),
			Do: "publish documents to one of them, or seal them to end the run", Facts: map[string]string{"source": strings.Join(rest, ",")}}
	}
	return &Error{Reason: SourceDry, Message: "no source that has documents left has a weight", Do: "give one a weight (loaderd mix --set NAME=1), or seal the run to end it"}
}

// whenDry is what helps when no documents come.
func (w *wait) whenDry(drains bool) string {
	switch {
	case drains && w.options.Linger > 0:
		return fmt.Sprintf("publish more documents, or wait: what is there is packed when the stream has been quiet for %s (serve.linger)", w.options.Linger)
	case drains:
		return "publish more documents, drain the run (or set serve.linger) for the steps that what is there fills, or seal the run to get the rest"
	case w.config.Steps.Last == plan.LastPad:
		return "publish more documents, or seal the run to get the rest; a drain would fill no step"
	}
	return "publish more documents; neither a drain nor a seal would fill a step with what is there"
}

func (w *wait) tokenizing() *Error {
	s, r := w.source, &w.report.PlanStats
	if s.Delivered >= s.Fetched || r.Cursor != r.CursorBefore {
		return nil
	}
	return &Error{Reason: TokenizerBehind,
		Message: fmt.Sprintf("%d documents (%d bytes) are fetched and wait to be tokenized", s.Fetched-s.Delivered, s.Buffered),
		Do:      "wait, or give the daemon more stream.workers"}
}

func (w *wait) filling() *Error {
	f := w.facts(0)
	return &Error{Reason: PoolFilling, Do: asks,
		Message: fmt.Sprintf("documents flow, but the step is not full yet: %s; pool %s pieces, shuffle window %s, queues %s",
			w.report.PlanStats.Lacks, f["pool"], f["window"], f["queued_rows"])}
}

// queueNote shows the rows that wait for a step: 1024: 3 of 48 rows, 2048: 1 of 24 rows.
func queueNote(queues []plan.QueueStat) string {
	parts := make([]string, len(queues))
	for i, q := range queues {
		parts[i] = fmt.Sprintf("%d: %d of %d rows", q.Bucket, q.Rows, q.Of)
	}
	return strings.Join(parts, ", ")
}

// unanswered says why a request has had no answer within Options.Stall.
func (f *follower) unanswered() *Error {
	e := f.cause(f.plan.planned())
	if e.Reason == Replaying || e.Reason == SourceDown && f.leader.report().Replays || e.Reason == PlanLogDown {
		return e
	}
	return &Error{Reason: PlanLogDown, Message: fmt.Sprintf("the request has not been recorded within %s", f.options.Stall),
		Do: "check the JetStream server and its disk, and ask again"}
}

// note adds the figures to the facts of a cause.
func note(s plan.Shortage, facts map[string]string) {
	if s.Needed == 0 {
		return // nothing is known yet
	}
	facts["rows_needed"], facts["rows_there"] = strconv.Itoa(s.Needed), strconv.Itoa(s.There)
	if s.Documents > 0 {
		facts["documents_needed"] = strconv.FormatInt(s.Documents, 10)
	}
}
