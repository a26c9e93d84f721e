package loader

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/quantity"
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
	w := f.look(step)
	e := first(w.leaderless, w.storing, w.opening, w.replaying, w.behind, w.idle, w.down, w.dry, w.tokenizing, w.filling)
	e.Facts = w.factsOf(e)
	return e
}

// look takes in what is known of a wait for a step.
func (f *follower) look(step uint64) *wait {
	w := &wait{step: step, planned: f.plan.planned(), report: f.leader.report(), demand: f.leader.demanded(), rates: f.pulse.rates(), config: f.config, options: f.options, supply: f.supply}
	if step >= w.report.Wanted+uint64(f.options.Ahead) {
		w.brake = w.report.Slowest
	}
	if w.report.Source != nil {
		w.source = *w.report.Source
	}
	return w
}

// first returns the first cause that is one.
func first(looks ...func() *Error) *Error {
	for _, look := range looks {
		if e := look(); e != nil {
			return e
		}
	}
	return nil
}

// broken is what keeps a run from going on whoever waits, missing what keeps the next step from coming; nil where nothing does.
func (w *wait) broken() *Error {
	return first(w.leaderless, w.storing, w.opening, w.replaying, w.down)
}
func (w *wait) missing() *Error { return first(w.behind, w.idle, w.dry, w.tokenizing, w.filling) }

// wait is what is known about a wait for a step. Each of its methods up to filling looks at one possible cause and returns nil when it
// is not that.
type wait struct {
	step    uint64
	planned uint64 // steps that are
	report  report
	source  SourceStatus
	demand  demand      // of the readers of all daemons
	brake   *ReaderStat // reader that holds the plan back
	rates   Rates
	config  plan.Config
	options Options
	supply  func(source string) (why, do string, ok bool)
}

// stands is a cause: its sentence, as the run's verdict has it, and what else is known.
func stands(reason Reason, sentence, detail, do string, facts map[string]string) *Error {
	e := &Error{Reason: reason, Message: sentence, Do: do, Facts: facts, brief: sentence, detail: detail}
	if detail != "" {
		e.Message += ": " + detail
	}
	return e
}

// factsOf are the facts of a cause, and those of every wait.
func (w *wait) factsOf(e *Error) map[string]string {
	facts := w.facts()
	maps.Copy(facts, e.Facts)
	return facts
}

func (w *wait) facts() map[string]string {
	r := &w.report.PlanStats
	facts := map[string]string{
		"step":          strconv.FormatUint(w.step, 10),
		"planned":       strconv.FormatUint(w.planned, 10),
		"last_document": strconv.FormatUint(w.source.Last, 10),
		"read_document": r.Cursor.String(),
		"pool":          fmt.Sprintf("%d of %d", r.Pool.Pieces, w.config.Packing.Pool),
		"held_rows":     fmt.Sprintf("%d (%d of %d pieces)", r.Pool.Held.Rows, r.Pool.Held.Pieces, w.config.Packing.Relevant().Held()),
		"window":        fmt.Sprintf("%d of %d", r.Window, w.config.Shuffle.Window),
		"queued_rows":   queueNote(r.Queues),
	}
	if r.Counts.Skipped.Total() > 0 {
		facts["skipped_documents"] = r.Counts.Skipped.String()
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
	return stands(NotLeading, "Waiting for a daemon to plan the run, "+quantity.Time(r.Silent), "none has been heard to for "+r.Silent.Round(time.Millisecond).String(),
		"wait: another daemon takes over within seconds; when none does, look at the daemons' logs and the JetStream servers", nil)
}

func (w *wait) storing() *Error {
	if w.report.Storing <= time.Second {
		return nil
	}
	return stands(PlanLogDown, "Waiting for JetStream to store the plan, "+quantity.Time(w.report.Storing), "", "check the JetStream server and its disk", nil)
}

func (w *wait) opening() *Error {
	if w.report.Source != nil {
		return nil
	}
	return stands(SourceDown, "Waiting for the document stream to open", "", "check the NATS server; the daemon connects by itself", nil)
}

func (w *wait) replaying() *Error {
	if !w.report.Replays || !w.source.DownSince.IsZero() {
		return nil
	}
	p := &w.report.PlanStats
	sentence := fmt.Sprintf("Planning again after a restart: at document %s", w.report.PlanStats.Cursor)
	if last := w.report.published(); last > 0 && len(p.Sources) == 0 {
		sentence += " of " + strconv.FormatUint(last, 10)
	}
	return stands(Replaying, sentence, "", asks, nil)
}

func (w *wait) behind() *Error {
	b := w.brake
	if b == nil || w.report.Replays {
		return nil
	}
	steps := quantity.Things(int(w.step-min(w.step, b.Step)), "step")
	return stands(RankBehind, fmt.Sprintf("Waiting for %s, %s behind", b.name(), steps),
		fmt.Sprintf("it has asked for no step beyond %d, and %d steps are planned beyond that", b.Step, w.options.Ahead), "look at that rank; the plan goes on when it does",
		map[string]string{"rank": strconv.Itoa(b.Rank), "world": strconv.Itoa(b.World), "rank_step": strconv.FormatUint(b.Step, 10)})
}

func (w *wait) down() *Error {
	s := w.source
	if s.DownSince.IsZero() {
		return nil
	}
	return stands(SourceDown, fmt.Sprintf("Waiting for NATS: %s is out of reach, %s", w.stream(), quantity.Time(time.Since(s.DownSince))), s.DownReason,
		"check the NATS server; the daemon reconnects by itself", map[string]string{"down_since": s.DownSince.UTC().Format(time.RFC3339Nano)})
}

func (w *wait) dry() *Error {
	s, lacks := w.source, w.report.PlanStats.Lacks
	if s.DrySince.IsZero() || s.Delivered < s.Fetched || time.Since(s.DrySince) < min(dryFor, w.options.Stall/2) {
		return nil
	}
	sentence := "Waiting for documents"
	facts := map[string]string{"dry_since": s.DrySince.UTC().Format(time.RFC3339Nano)}
	detail := fmt.Sprintf("document %d was the last, and the step is not full: %s", s.Last, lacks)
	if s.Last == 0 {
		detail = fmt.Sprintf("there is none yet, and the step needs them: %s", lacks)
	}
	if x := w.wanted(); x != nil {
		sentence += " of source " + x.Name
		facts["source"] = x.Name
		if x.Epochs.Another(x.Epoch + 1) {
			detail += fmt.Sprintf("; its next epoch begins when it is sealed (epochs: %s)", x.Epochs)
		}
	}
	if skipped := w.skipped(); skipped != "" {
		detail += "; " + skipped
	}
	do := w.whenDry(lacks.Drains)
	if w.supply != nil {
		if why, mend, ok := w.supply(facts["source"]); ok {
			detail = why + "; " + detail
			if do = "wait: the daemon fetches them itself"; mend != "" {
				do = mend
			}
		}
	}
	return stands(SourceDry, sentence+", "+quantity.Time(time.Since(s.DrySince)), detail, do, facts)
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
		return stands(SourceDry, "Waiting for documents of any source", strings.Join(rest, ", ")+" rest until they have some",
			"publish documents to one of them, or seal them to end the run", map[string]string{"source": strings.Join(rest, ",")})
	}
	return stands(SourceDry, "Waiting for a change of the mixture", "no source that has documents left has a weight",
		"give one a weight (loaderd mix --set NAME=1), or seal the run to end it", nil)
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
	return stands(TokenizerBehind, fmt.Sprintf("Waiting for the tokenizer: %s behind", quantity.Things(int(s.Fetched-s.Delivered), "document")),
		fmt.Sprintf("they are fetched (%s)", quantity.Bytes(s.Buffered)), "wait, or give the daemon more stream.workers", nil)
}

func (w *wait) filling() *Error {
	f, lacks := w.facts(), w.report.PlanStats.Lacks
	sentence := "Next step"
	if w.planned == 0 {
		sentence = "First step"
	}
	switch {
	case lacks.Needed == 0: // nothing is known yet
		sentence += ": documents flow, pool and shuffle window fill"
	default:
		if lacks.Documents > 0 && w.rates.Documents > 0 {
			sentence += " in about " + quantity.Time(time.Duration(float64(lacks.Documents)/w.rates.Documents*float64(time.Second)))
		}
		sentence += fmt.Sprintf(": %s rows needed, %s there", quantity.Count(lacks.Needed), quantity.Count(lacks.There))
	}
	detail := fmt.Sprintf("documents flow, but the step is not full yet: %s; pool %s pieces, shuffle window %s, queues %s", lacks, f["pool"], f["window"], f["queued_rows"])
	if skipped := w.skipped(); skipped != "" {
		detail += "; " + skipped
	}
	return stands(PoolFilling, sentence, detail, asks, nil)
}

// skipped says why documents are skipped, where at least half of those that were planned are; else it is empty.
func (w *wait) skipped() string {
	c := &w.report.PlanStats.Counts
	n := c.Skipped.Total()
	if n == 0 || 2*n < c.Arrived {
		return ""
	}
	return fmt.Sprintf("%s of %s documents were skipped: %s", quantity.Count(n), quantity.Count(c.Arrived), c.Skipped)
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
