package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/humanize"
	"loaderd/loader/backend"
	"loaderd/loader/census"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// dryAfter is how long a stream must have had no new document to count as dry. A slow stream is not dry between its
// documents.
const dryAfter = 5 * time.Second

func (w *wait) cause() *fault.Error {
	return firstCause(w.checkStorage, w.checkLeader, w.checkAppend, w.checkOpening, w.checkReplay, w.checkMissingRank,
		w.checkRankBehind, w.checkMixture, w.checkSourceDown,
		w.checkLease, w.checkStreamFull, w.checkSourceDry,
		w.checkTokenizer, w.checkPoolFilling, w.checkConnection, w.unknownCause)
}

// firstCause returns the result of the first check that finds a cause.
func firstCause(looks ...func() *fault.Error) *fault.Error {
	for _, look := range looks {
		if e := look(); e != nil {
			return e
		}
	}
	return nil
}

// runCause returns what prevents the run from planning any step; nil if nothing does.
func (w *wait) runCause() *fault.Error {
	return firstCause(w.checkStorage, w.checkLeader, w.checkAppend, w.checkOpening, w.checkReplay, w.checkSourceDown,
		w.checkLease)
}

// stepCause returns what prevents the next step from being planned.
func (w *wait) stepCause() *fault.Error {
	return firstCause(w.checkMissingRank, w.checkRankBehind, w.checkMixture, w.checkStreamFull, w.checkSourceDry,
		w.checkTokenizer, w.checkPoolFilling, w.checkConnection, w.unknownCause)
}

// Evidence is the information about a wait for a step.
type Evidence struct {
	Step       uint64
	Planned    uint64 // number of planned steps
	Commits    planrecord.Commits
	Report     state.Report
	Demand     state.Demand // of the readers of all daemons
	Ranks      census.View  // of all daemons
	Rates      state.Rates
	Config     runconfig.Config
	Options    backend.Options
	PullStatus func(source string) (why, do string, ok bool) // of backend.Backends; may be nil
}

// wait determines the cause of a wait. Each of its methods up to unknown checks the evidence of one possible cause,
// and returns nil without evidence.
type wait struct {
	Evidence
	source         document.SourceStatus // the source that the plan waits for
	blockingReader *state.ReaderStat     // reader that holds back the plan
}

func newWait(e Evidence) *wait {
	w := &wait{Evidence: e}
	if e.Step >= e.Report.FirstUnrequested+uint64(e.Options.Ahead) {
		w.blockingReader = e.Report.SlowestReader
	}
	w.source = w.Report.ReaderStatus()
	return w
}

// Cause returns why the step is not planned yet. Every cause has evidence that its method documents; without any, it
// is CauseUnknown.
func (e Evidence) Cause() *fault.Error {
	w := newWait(e)
	c := w.cause()
	c.Facts = w.causeFacts(c)
	return c
}

// UnansweredCause returns why a request has had no answer within Options.Stall.
func (e Evidence) UnansweredCause() *fault.Error {
	w := newWait(e)
	c := w.runCause()
	if c == nil || c.Reason == fault.SourceDown && !w.Report.Replaying { // requests need no documents
		c = w.unknownCause()
		c.Message = fmt.Sprintf("the request has not been recorded within %s, no cause found: %s", w.Options.StallTimeout,
			c.Detail)
	}
	c.Facts = w.causeFacts(c)
	return c
}

// stallError returns the error of a cause. sentence is that of the run's verdict, and detail is additional information.
func stallError(reason fault.Reason, sentence, detail, do string, facts map[string]string) *fault.Error {
	e := &fault.Error{Reason: reason, Message: sentence, Advice: do, Facts: facts, Brief: sentence, Detail: detail}
	if detail != "" {
		e.Message += ": " + detail
	}
	return e
}

// causeFacts returns the facts of a cause, plus those of every wait. A full stream and a missing rank have only their
// own, because a status carries 16.
func (w *wait) causeFacts(e *fault.Error) map[string]string {
	if e.Reason == fault.StreamFull || e.Reason == fault.RankMissing {
		return e.Facts
	}
	facts := w.waitFacts()
	maps.Copy(facts, e.Facts)
	return facts
}

func (w *wait) waitFacts() map[string]string {
	r := &w.Report.PlanStats
	facts := map[string]string{
		"step":          strconv.FormatUint(w.Step, 10),
		"planned":       strconv.FormatUint(w.Planned, 10),
		"last_document": strconv.FormatUint(w.source.Last, 10),
		"read_document": r.Cursor.String(),
		"pool":          humanize.Of(r.Pool.Pieces, r.Capacity.Pool, "piece"),
		"holdback_rows": fmt.Sprintf("%d (%s)", r.Pool.Held.Rows,
			humanize.Of(int(r.Pool.Held.Pieces), r.Capacity.Held, "piece")),
		"window":      fmt.Sprintf("%d of %d", r.WindowRows, w.Config.Shuffle.Window),
		"queued_rows": describeQueues(r.Queues),
	}
	if r.Counts.Skipped.Total() > 0 {
		facts["skipped_documents"] = r.Counts.Skipped.String()
	}
	addShortageFacts(r.Shortage, facts)
	return facts
}

// retryAdvice is the advice when the reader can only wait.
const retryAdvice = "wait and ask again"

// checkStorage checks whether the embedded server of the leader's daemon has reported a failed write, see
// StorageFailure.
func (w *wait) checkStorage() *fault.Error {
	c := w.Report.Connection
	if c == nil || c.Storage == nil {
		return nil
	}
	s := c.Storage
	facts := map[string]string{"path": s.Path, "since": c.Since.UTC().Format(time.RFC3339Nano)}
	free := ""
	if s.Free >= 0 {
		free = ", " + humanize.Bytes(s.Free) + " free"
		facts["free_bytes"] = strconv.FormatInt(s.Free, 10)
	}
	detail := fmt.Sprintf("the NATS server inside the daemon cannot write to %s%s: %s", s.Path, free, s.Error)
	waited := humanize.Time(time.Since(c.Since))
	if s.Full {
		return stallError(fault.StorageFull, "Waiting for space on the disk, "+waited, detail,
			"make room on that disk, then restart the daemon", facts)
	}
	return stallError(fault.StorageDown, "Waiting for the disk, "+waited, detail,
		"check that disk, then restart the daemon", facts)
}

// checkLeader checks whether no leader has reported for state.HeartbeatTimeout, or none ever has.
func (w *wait) checkLeader() *fault.Error {
	r := &w.Report
	if !r.Remote || r.Age < state.HeartbeatTimeout && (!r.LeaderUnknown || r.Source != nil) {
		return nil
	}
	detail := "no daemon that leads has reported yet"
	if r.Age >= state.HeartbeatTimeout {
		detail = "no daemon that leads has reported for " + r.Age.Round(time.Millisecond).String()
	}
	return stallError(fault.NotLeading, "Waiting for a leader among the daemons, "+humanize.Time(r.Age),
		w.withConnection(detail),
		"wait: another daemon takes over within seconds; when none does, look at the daemons' logs and the JetStream servers",
		nil)
}

// withConnection adds the state of the connection to the detail of a cause if the connection is down.
func (w *wait) withConnection(detail string) string {
	if c := w.Report.Connection; c != nil && !c.Up {
		return detail + "; the connection to NATS is " + c.String()
	}
	return detail
}

// maxAppendTime is the duration of an append after which it counts as the cause of a wait.
func (w *wait) maxAppendTime() time.Duration { return min(time.Second, w.Options.StallTimeout/2) }

// checkAppend checks whether an append to the plan log is unacknowledged.
func (w *wait) checkAppend() *fault.Error {
	if w.Report.AppendTime <= w.maxAppendTime() {
		return nil
	}
	detail, do := "the append is not acknowledged", "check the JetStream server and its disk"
	if i := slices.IndexFunc(w.Report.StreamFills, func(f state.StreamFill) bool { return f.IsAccountFull() }); i >= 0 {
		f := w.Report.StreamFills[i]
		detail += fmt.Sprintf(", and the JetStream account of document stream %q is full (%s)", f.Name, f.Account)
		do = f.Advice()
	}
	return stallError(fault.PlanLogDown, "Waiting for JetStream to store the plan, "+humanize.Time(w.Report.AppendTime),
		w.withConnection(detail), do, nil)
}

// checkLease checks whether an append waits until the daemon has confirmed that its lease has not expired.
func (w *wait) checkLease() *fault.Error {
	if w.Report.LeaseWait <= w.maxAppendTime() {
		return nil
	}
	return stallError(fault.NotLeading, "Waiting for the daemon's lease, "+humanize.Time(w.Report.LeaseWait),
		w.withConnection("the lease is not renewed, and no step is stored without it"),
		"wait: the daemon renews it, or another one takes over; when neither happens, look at the JetStream servers",
		nil)
}

// checkOpening checks whether the last attempt to open the stream has failed, or the connection is down.
func (w *wait) checkOpening() *fault.Error {
	r := &w.Report
	if r.Opening == nil {
		return nil
	}
	detail := r.Opening.Error
	if c := r.Connection; detail == "" && c != nil && !c.Up {
		detail = "the connection to NATS is " + c.String()
	}
	if detail == "" {
		return nil
	}
	sentence := fmt.Sprintf("Waiting for %s to open, %s", r.Opening.StreamName(),
		humanize.Time(time.Since(r.Opening.Since)))
	return stallError(fault.SourceDown, sentence, detail, "check the NATS server; the daemon retries automatically", nil)
}

// checkReplay checks whether the leader has not finished the replay of the plan log.
func (w *wait) checkReplay() *fault.Error {
	if !w.Report.Replaying || !w.Report.IsReading() || !w.source.DownSince.IsZero() {
		return nil
	}
	p := &w.Report.PlanStats
	sentence := fmt.Sprintf("Replaying after a restart: %s planned",
		humanize.Things(int(p.Cursor.Last()), "document"))
	if len(p.Sources) == 1 {
		sentence = fmt.Sprintf("Replaying after a restart: at document %d of %d", max(p.Sources[0].Next, 1)-1,
			w.Report.PublishedDocuments())
	}
	detail := ""
	if w.Report.IdleTime >= flowTimeout {
		detail = fmt.Sprintf("no document has been received or planned for %s; the connection to NATS is %s",
			humanize.Time(w.Report.IdleTime), w.Report.Connection)
	}
	return stallError(fault.Replaying, sentence, detail, retryAdvice, nil)
}

// checkRankBehind checks whether the plan has its maximum lead over a reader.
func (w *wait) checkRankBehind() *fault.Error {
	b := w.blockingReader
	if b == nil || w.Report.Replaying {
		return nil
	}
	steps := humanize.Things(int(w.Step-min(w.Step, b.Step)), "step")
	return stallError(fault.RankBehind, fmt.Sprintf("Waiting for %s of job %q, %s behind", b.Name(), b.Job, steps),
		fmt.Sprintf("it has asked for no step beyond %d, and %d steps are planned beyond that", b.Step, w.Options.Ahead),
		"look at that rank; planning continues when it requests further steps",
		map[string]string{"rank": strconv.Itoa(b.Rank), "world": strconv.Itoa(b.World),
			"rank_step": strconv.FormatUint(b.Step, 10)})
}

// checkSourceDown checks whether the reader of the documents has reported an error since the last document.
func (w *wait) checkSourceDown() *fault.Error {
	s := w.source
	if s.DownSince.IsZero() {
		return nil
	}
	return stallError(fault.SourceDown, fmt.Sprintf("Waiting for NATS: %s is out of reach, %s", w.streamName(),
		humanize.Time(time.Since(s.DownSince))), s.DownReason,
		"check the NATS server; the daemon reconnects automatically",
		map[string]string{"down_since": s.DownSince.UTC().Format(time.RFC3339Nano)})
}

// checkSourceDry checks whether the stream is exhausted.
func (w *wait) checkSourceDry() *fault.Error {
	if !w.isExhausted() {
		return nil
	}
	s, lacks := w.source, w.Report.PlanStats.Shortage
	if lacks.Flushes && w.flushesQuiet() {
		return w.firstStepCause()
	}
	sentence := "Waiting for documents"
	facts := map[string]string{"dry_since": s.DrySince.UTC().Format(time.RFC3339Nano)}
	detail := fmt.Sprintf("document %d was the last, and the step is not full: %s", s.Last, w.describeShortage())
	switch {
	case s.Last == 0 && lacks.Early:
		detail = fmt.Sprintf("there is none yet, a step has %s", humanize.Things(lacks.Needed, "row"))
	case s.Last == 0:
		detail = fmt.Sprintf("there is none yet, and the step needs them: %s", w.describeShortage())
	case lacks.Early:
		detail = w.describeShortage()
	}
	if x := w.nextSource(); x != nil {
		facts["source"] = x.Name
		if w.Report.IsMultiSource() {
			sentence += fmt.Sprintf(" of source %q", x.Name)
		}
		if x.Epochs.HasEpochAfter(x.Epoch + 1) {
			detail += fmt.Sprintf("; its next epoch begins when it is sealed (epochs: %s)", x.Epochs)
		}
	}
	if skipped := w.describeSkipped(); skipped != "" {
		detail += "; " + skipped
	}
	do := w.dryAdvice()
	reason := fault.SourceDry
	source := w.nextSource()
	masked := describeMasked(&w.Report.PlanStats, source)
	if masked != "" {
		sentence, detail, do = sentence+" with a loss", masked+"; "+detail, maskedAdvice(&w.Report.PlanStats, source)
	}
	if filtered := describeFilters(&w.Report.PlanStats, source); filtered != "" {
		reason, sentence = fault.DocumentsFiltered, sentence+" that match the filters"
		detail, do = filtered+"; "+detail, filterAdvice
	}
	if w.PullStatus != nil {
		if why, fix, ok := w.PullStatus(facts["source"]); ok {
			detail = why + "; " + detail
			switch {
			case fix != "":
				do = fix
			case reason == fault.SourceDry && masked == "": // else what it fetches is of no use
				do = "wait: the daemon fetches them itself"
			}
		}
	}
	return stallError(reason, sentence+", "+humanize.Time(time.Since(s.DrySince)), detail, do, facts)
}

// isExhausted reports whether the stream is not sealed and its last document is planned. In addition, no document may
// have been stored for dryAfter or since the stream was opened.
func (w *wait) isExhausted() bool {
	s := w.source
	quiet := time.Since(s.DrySince) >= min(dryAfter, w.Options.StallTimeout/2) || w.Report.IdleTime >= w.Report.SourceAge
	return !s.DrySince.IsZero() && s.Delivered >= s.Fetched && quiet && !w.isSealed()
}

// isSealed reports whether the stream that the plan waits for is sealed.
func (w *wait) isSealed() bool {
	x := w.nextSource()
	return x != nil && x.Sealed
}

// nextSource returns the source of the next document; nil until the leader has reported it.
func (w *wait) nextSource() *state.SourceStats {
	p := &w.Report.PlanStats
	if p.NextSource >= len(p.Sources) {
		return nil
	}
	return &p.Sources[p.NextSource]
}

// streamName returns a readable name of the document stream that the plan waits for.
func (w *wait) streamName() string {
	if x := w.nextSource(); x != nil && w.Report.IsMultiSource() {
		return fmt.Sprintf("source %q", x.Name)
	}
	return "the document stream"
}

// checkMixture checks whether the planner reads no source until the mixture changes or a paused source has documents.
func (w *wait) checkMixture() *fault.Error {
	p := &w.Report.PlanStats
	if !p.Idle {
		return nil
	}
	var rest, quoted []string
	for _, s := range p.Sources {
		if s.Paused && !s.Removed {
			rest = append(rest, s.Name)
			quoted = append(quoted, strconv.Quote(s.Name))
		}
	}
	if e := w.streamFullCause(time.Time{}, rest...); e != nil {
		return e
	}
	if len(rest) > 0 {
		return stallError(fault.SourceDry, "Waiting for documents of any source", "sources without documents: "+
			strings.Join(quoted, ", "),
			"publish more documents, or end the run with loaderd seal", map[string]string{"source": strings.Join(rest, ",")})
	}
	return stallError(fault.SourceDry, "Waiting for a change of the mixture",
		"no source that has documents left has a weight",
		"give one a weight with loaderd mix --set NAME=1", nil)
}

// dryAdvice returns the advice if no documents arrive, with at most one command.
func (w *wait) dryAdvice() string {
	const publish = "publish more documents, or "
	switch lacks := w.Report.PlanStats.Shortage; {
	case !w.Report.IsMultiSource() && w.source.Last == 0:
		return "publish documents with loaderd publish"
	case lacks.Flushes && w.Options.Linger > 0:
		return fmt.Sprintf("%swait: buffered documents are packed when the stream has been quiet for %s (serve.linger)",
			publish, w.Options.Linger)
	case lacks.Flushes:
		return publish + "pack the buffered documents with loaderd flush"
	case w.Report.IsMultiSource():
		return publish + "end this source with loaderd seal " + w.nextSource().Name
	case !lacks.Early || lacks.Packed == 0:
		return publish + "end the run with loaderd seal"
	case w.Config.Steps.Last == runconfig.LastPad:
		return fmt.Sprintf("%send the run with loaderd seal: its last step then has %s of documents and %d of padding",
			publish, humanize.Things(lacks.Packed, "row"), lacks.Needed-lacks.Packed)
	default:
		return fmt.Sprintf("%send the run with loaderd seal: what is left fills no step and is dropped", publish)
	}
}

// checkTokenizer checks whether the planner waits for the tokens of fetched documents.
func (w *wait) checkTokenizer() *fault.Error {
	s, r := w.source, &w.Report.PlanStats
	if !s.Tokenizing || s.Delivered >= s.Fetched || r.Cursor != r.PreviousCursor {
		return nil
	}
	return stallError(fault.TokenizerBehind, fmt.Sprintf("Waiting for the tokenizer: %s behind",
		humanize.Things(int(s.Fetched-s.Delivered), "document")),
		fmt.Sprintf("they are fetched (%s)", humanize.Bytes(s.Buffered)), "wait, or give the daemon more stream.workers", nil)
}

// flowTimeout is how long after its last document a stream counts as flowing.
const flowTimeout = 10 * time.Second

// checkPoolFilling checks whether a document was fetched or planned, or the stream was opened, within flowTimeout.
func (w *wait) checkPoolFilling() *fault.Error {
	f, lacks := w.waitFacts(), w.Report.PlanStats.Shortage
	if !w.Report.IsReading() || w.Report.IdleTime >= flowTimeout {
		return nil
	}
	sentence := w.stepSubject()
	switch {
	case w.Report.IdleTime >= w.Report.SourceAge:
		left := w.source.Last - w.source.Delivered
		if w.source.EpochLeft > 0 {
			left = w.source.EpochLeft
		}
		stored := humanize.Things(int(left), "document")
		return stallError(fault.PoolFilling, fmt.Sprintf("%s: reading begins, %s stored", sentence, stored),
			"none has been received yet", retryAdvice, nil)
	case lacks.Early:
		return w.firstStepCause()
	case lacks.Needed == 0: // no figures exist yet
		sentence += ": documents flow, pool and shuffle window fill"
	default:
		if lacks.Documents > 0 && w.Rates.Documents > 0 {
			sentence += " in about " + humanize.Time(
				time.Duration(float64(lacks.Documents)/w.Rates.Documents*float64(time.Second)))
		}
		sentence += fmt.Sprintf(": %s needed, %s buffered",
			humanize.Things(lacks.Needed, "row"), humanize.Count(lacks.Packed))
	}
	detail := fmt.Sprintf("documents flow, but the step is not full yet: %s; pool %s, shuffle window %s, queues %s",
		w.describeShortage(), f["pool"], f["window"], f["queued_rows"])
	return poolFillingError(w, sentence, detail, retryAdvice)
}

// poolFillingError returns the error of a wait for more packed documents. If filters reject all recent documents, they
// are the cause.
func poolFillingError(w *wait, sentence, detail, advice string) *fault.Error {
	if skipped := w.describeSkipped(); skipped != "" {
		detail += "; " + skipped
	}
	reason := fault.PoolFilling
	if filtered := describeFilters(&w.Report.PlanStats, nil); filtered != "" {
		reason, sentence = fault.DocumentsFiltered, "Waiting for documents that match the filters"
		detail, advice = filtered+"; "+detail, filterAdvice
	}
	return stallError(reason, sentence, detail, advice, nil)
}

// checkConnection checks whether the leader's connection to the servers is down. It runs after all more specific
// checks.
func (w *wait) checkConnection() *fault.Error {
	c := w.Report.Connection
	if c == nil || c.Up {
		return nil
	}
	return stallError(fault.SourceDown, "Waiting for NATS, "+humanize.Time(time.Since(c.Since)), c.Error,
		"check the NATS server; the daemon reconnects automatically",
		map[string]string{"down_since": c.Since.UTC().Format(time.RFC3339Nano)})
}

// unknownCause returns the cause without evidence for any other one. It lists the available information.
func (w *wait) unknownCause() *fault.Error {
	r, s := &w.Report, &w.source
	connection := r.Connection.String()
	facts := map[string]string{"connection": connection}
	var known []string
	add := func(format string, v ...any) { known = append(known, fmt.Sprintf(format, v...)) }
	switch {
	case r.Opening != nil:
		last := "without an error"
		if r.Opening.Error != "" {
			last = "the last attempt: " + r.Opening.Error
		}
		add("%s has been opening for %s, %s", r.Opening.StreamName(), humanize.Time(time.Since(r.Opening.Since)), last)
	case r.Source != nil:
		add("%s ends at document %d, %d received, %d tokenized", w.streamName(), s.Last, s.Fetched, s.Delivered)
		add("the last one was received or planned %s ago", humanize.Time(r.IdleTime))
		facts["fetched_document"] = strconv.FormatUint(s.Fetched, 10)
		if !s.FetchedAt.IsZero() {
			facts["fetched_at"] = s.FetchedAt.UTC().Format(time.RFC3339Nano)
		}
	default:
		add("%s is not open", w.streamName())
	}
	if r.Opening == nil && w.isSealed() {
		add("it is sealed")
	}
	add("rows ready: %d of %d", r.PlanStats.Shortage.Packed, r.PlanStats.Shortage.Needed)
	if r.AppendTime > 0 {
		add("an append has taken %s", humanize.Time(r.AppendTime))
	}
	add("connection to NATS: %s", connection)
	return stallError(fault.CauseUnknown, fmt.Sprintf("Waiting for step %d: no cause found", w.Step),
		strings.Join(known, "; "),
		"look at the log of the daemon that plans the run, and at that of the NATS server", facts)
}

// describeSkipped returns why documents are skipped, if at least half of the planned ones are; otherwise an empty
// string.
func (w *wait) describeSkipped() string {
	c := &w.Report.PlanStats.Counts
	n := c.Skipped.Total()
	if n == 0 || 2*n < c.Arrived {
		return ""
	}
	return fmt.Sprintf("skipped %s: %s", humanize.Of(int(n), int(c.Arrived), "document"), c.Skipped)
}

// describeQueues formats the rows that wait for a step, for example: 1024: 3 rows, a step has 48; 2048: 1 row, a step
// has 24.
func describeQueues(queues []planner.QueueStat) string {
	parts := make([]string, len(queues))
	for i, q := range queues {
		parts[i] = fmt.Sprintf("%d: %s, a step has %d", q.Bucket, humanize.Things(q.Rows, "row"), q.StepRows)
	}
	return strings.Join(parts, "; ")
}

// stepSubject returns the beginning of a sentence about the next step.
func (w *wait) stepSubject() string {
	if w.Planned == 0 {
		return "First step"
	}
	return "Next step"
}

// addShortageFacts adds the figures of a shortage to the facts of a cause.
func addShortageFacts(s planner.Shortage, facts map[string]string) {
	if s.Needed == 0 {
		return // no figures exist yet
	}
	facts["rows_needed"], facts["rows_ready"] = strconv.Itoa(s.Needed), strconv.Itoa(s.Packed)
	if s.Documents > 0 {
		facts["documents_needed"] = strconv.FormatInt(s.Documents, 10)
	}
}
