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

// dryFor is how long a stream must have had no new document to count as dry. A slow stream is not dry between its
// documents.
const dryFor = 5 * time.Second

func (w *wait) cause() *fault.Error {
	return first(w.storage, w.leaderless, w.storing, w.opening, w.replaying, w.missingRank, w.behind, w.idle, w.down,
		w.renewing, w.full, w.dry,
		w.tokenizing, w.filling, w.disconnected, w.unknown)
}

// first returns the result of the first check that finds a cause.
func first(looks ...func() *fault.Error) *fault.Error {
	for _, look := range looks {
		if e := look(); e != nil {
			return e
		}
	}
	return nil
}

// broken returns what prevents the run from planning any step; nil if nothing does.
func (w *wait) broken() *fault.Error {
	return first(w.storage, w.leaderless, w.storing, w.opening, w.replaying, w.down, w.renewing)
}

// missing returns what prevents the next step from being planned.
func (w *wait) missing() *fault.Error {
	return first(w.missingRank, w.behind, w.idle, w.full, w.dry, w.tokenizing, w.filling, w.disconnected, w.unknown)
}

// Evidence is the information about a wait for a step.
type Evidence struct {
	Step    uint64
	Planned uint64 // number of planned steps
	Keepers planrecord.Keepers
	Report  state.Report
	Demand  state.Demand // of the readers of all daemons
	Ranks   census.View  // of all daemons
	Rates   state.Rates
	Config  runconfig.Config
	Options backend.Options
	Supply  func(source string) (why, do string, ok bool) // of backend.Backends; may be nil
}

// wait determines the cause of a wait. Each of its methods up to unknown checks the evidence of one possible cause,
// and returns nil without evidence.
type wait struct {
	Evidence
	source document.SourceStatus // the source that the plan waits for
	brake  *state.ReaderStat     // reader that holds back the plan
}

func newWait(e Evidence) *wait {
	w := &wait{Evidence: e}
	if e.Step >= e.Report.Wanted+uint64(e.Options.Ahead) {
		w.brake = e.Report.Slowest
	}
	w.source = w.Report.Reader()
	return w
}

// Cause returns why the step is not planned yet. Every cause has evidence that its method documents; without any, it
// is CauseUnknown.
func (e Evidence) Cause() *fault.Error {
	w := newWait(e)
	c := w.cause()
	c.Facts = w.factsOf(c)
	return c
}

// Unanswered returns why a request has had no answer within Options.Stall.
func (e Evidence) Unanswered() *fault.Error {
	w := newWait(e)
	c := w.broken()
	if c == nil || c.Reason == fault.SourceDown && !w.Report.Replays { // requests need no documents
		c = w.unknown()
		c.Message = fmt.Sprintf("the request has not been recorded within %s, no cause found: %s", w.Options.Stall, c.Detail)
	}
	c.Facts = w.factsOf(c)
	return c
}

// stalled returns the error of a cause. sentence is that of the run's verdict, and detail is additional information.
func stalled(reason fault.Reason, sentence, detail, do string, facts map[string]string) *fault.Error {
	e := &fault.Error{Reason: reason, Message: sentence, Do: do, Facts: facts, Brief: sentence, Detail: detail}
	if detail != "" {
		e.Message += ": " + detail
	}
	return e
}

// factsOf returns the facts of a cause, plus those of every wait. A full stream and a missing rank have only their
// own, because a status carries 16.
func (w *wait) factsOf(e *fault.Error) map[string]string {
	if e.Reason == fault.StreamFull || e.Reason == fault.RankMissing {
		return e.Facts
	}
	facts := w.facts()
	maps.Copy(facts, e.Facts)
	return facts
}

func (w *wait) facts() map[string]string {
	r := &w.Report.PlanStats
	facts := map[string]string{
		"step":          strconv.FormatUint(w.Step, 10),
		"planned":       strconv.FormatUint(w.Planned, 10),
		"last_document": strconv.FormatUint(w.source.Last, 10),
		"read_document": r.Cursor.String(),
		"pool":          humanize.Of(r.Pool.Pieces, r.Capacity.Pool, "piece"),
		"held_rows": fmt.Sprintf("%d (%s)", r.Pool.Held.Rows,
			humanize.Of(int(r.Pool.Held.Pieces), r.Capacity.Held, "piece")),
		"window":      fmt.Sprintf("%d of %d", r.Window, w.Config.Shuffle.Window),
		"queued_rows": queueNote(r.Queues),
	}
	if r.Counts.Skipped.Total() > 0 {
		facts["skipped_documents"] = r.Counts.Skipped.String()
	}
	note(r.Lacks, facts)
	return facts
}

// asks is the advice when the reader can only wait.
const asks = "wait and ask again"

// storage checks whether the embedded server of the leader's daemon has reported a failed write, see StorageFailure.
func (w *wait) storage() *fault.Error {
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
		return stalled(fault.StorageFull, "Waiting for space on the disk, "+waited, detail,
			"make room on that disk, then restart the daemon", facts)
	}
	return stalled(fault.StorageDown, "Waiting for the disk, "+waited, detail,
		"check that disk, then restart the daemon", facts)
}

// leaderless checks whether no leader has reported for state.HeartbeatTimeout, or none ever has.
func (w *wait) leaderless() *fault.Error {
	r := &w.Report
	if !r.Elsewhere || r.Silent < state.HeartbeatTimeout && (!r.Unheard || r.Source != nil) {
		return nil
	}
	detail := "no daemon that leads has reported yet"
	if r.Silent >= state.HeartbeatTimeout {
		detail = "no daemon that leads has reported for " + r.Silent.Round(time.Millisecond).String()
	}
	return stalled(fault.NotLeading, "Waiting for a daemon to plan the run, "+humanize.Time(r.Silent), w.connected(detail),
		"wait: another daemon takes over within seconds; when none does, look at the daemons' logs and the JetStream servers",
		nil)
}

// connected adds the state of the connection to the detail of a cause if the connection is down.
func (w *wait) connected(detail string) string {
	if c := w.Report.Connection; c != nil && !c.Up {
		return detail + "; the connection to NATS is " + c.String()
	}
	return detail
}

// storeFor is the duration of an append after which it counts as the cause of a wait.
func (w *wait) storeFor() time.Duration { return min(time.Second, w.Options.Stall/2) }

// storing checks whether an append to the plan log is unacknowledged.
func (w *wait) storing() *fault.Error {
	if w.Report.Storing <= w.storeFor() {
		return nil
	}
	detail, do := "the append is not acknowledged", "check the JetStream server and its disk"
	if i := slices.IndexFunc(w.Report.Streams, func(f state.StreamFill) bool { return f.AccountFull() }); i >= 0 {
		f := w.Report.Streams[i]
		detail += fmt.Sprintf(", and the JetStream account of document stream %q is full (%s)", f.Name, f.Account)
		do = f.Raise()
	}
	return stalled(fault.PlanLogDown, "Waiting for JetStream to store the plan, "+humanize.Time(w.Report.Storing),
		w.connected(detail), do, nil)
}

// renewing checks whether an append waits until the daemon has confirmed that its lease has not expired.
func (w *wait) renewing() *fault.Error {
	if w.Report.Renewing <= w.storeFor() {
		return nil
	}
	return stalled(fault.NotLeading, "Waiting for the daemon's lease, "+humanize.Time(w.Report.Renewing),
		w.connected("the lease is not renewed, and no step is stored without it"),
		"wait: the daemon renews it, or another one takes over; when neither happens, look at the JetStream servers",
		nil)
}

// opening checks whether the last attempt to open the stream has failed, or the connection is down.
func (w *wait) opening() *fault.Error {
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
	sentence := fmt.Sprintf("Waiting for %s to open, %s", r.Opening.Stream(), humanize.Time(time.Since(r.Opening.Since)))
	return stalled(fault.SourceDown, sentence, detail, "check the NATS server; the daemon tries again by itself", nil)
}

// replaying checks whether the leader has not finished the replay of the plan log.
func (w *wait) replaying() *fault.Error {
	if !w.Report.Replays || !w.Report.Reads() || !w.source.DownSince.IsZero() {
		return nil
	}
	p := &w.Report.PlanStats
	sentence := fmt.Sprintf("Planning again after a restart: %s are planned",
		humanize.Things(int(p.Cursor.Last()), "document"))
	if len(p.Sources) == 1 {
		sentence = fmt.Sprintf("Planning again after a restart: at document %d of %d", max(p.Sources[0].Next, 1)-1,
			w.Report.Published())
	}
	detail := ""
	if w.Report.Idle >= flowFor {
		detail = fmt.Sprintf("no document has been received or planned for %s; the connection to NATS is %s",
			humanize.Time(w.Report.Idle), w.Report.Connection)
	}
	return stalled(fault.Replaying, sentence, detail, asks, nil)
}

// behind checks whether the plan has its maximum lead over a reader.
func (w *wait) behind() *fault.Error {
	b := w.brake
	if b == nil || w.Report.Replays {
		return nil
	}
	steps := humanize.Things(int(w.Step-min(w.Step, b.Step)), "step")
	return stalled(fault.RankBehind, fmt.Sprintf("Waiting for %s of job %q, %s behind", b.Name(), b.Job, steps),
		fmt.Sprintf("it has asked for no step beyond %d, and %d steps are planned beyond that", b.Step, w.Options.Ahead),
		"look at that rank; the plan goes on when it does",
		map[string]string{"rank": strconv.Itoa(b.Rank), "world": strconv.Itoa(b.World),
			"rank_step": strconv.FormatUint(b.Step, 10)})
}

// down checks whether the reader of the documents has reported an error since the last document.
func (w *wait) down() *fault.Error {
	s := w.source
	if s.DownSince.IsZero() {
		return nil
	}
	return stalled(fault.SourceDown, fmt.Sprintf("Waiting for NATS: %s is out of reach, %s", w.stream(),
		humanize.Time(time.Since(s.DownSince))), s.DownReason,
		"check the NATS server; the daemon reconnects by itself",
		map[string]string{"down_since": s.DownSince.UTC().Format(time.RFC3339Nano)})
}

// dry checks whether the stream is exhausted.
func (w *wait) dry() *fault.Error {
	if !w.exhausted() {
		return nil
	}
	s, lacks := w.source, w.Report.PlanStats.Lacks
	if lacks.Drains && w.drainsQuiet() {
		return w.firstStep()
	}
	sentence := "Waiting for documents"
	facts := map[string]string{"dry_since": s.DrySince.UTC().Format(time.RFC3339Nano)}
	detail := fmt.Sprintf("document %d was the last, and the step is not full: %s", s.Last, w.lacks())
	switch {
	case s.Last == 0 && lacks.Early:
		detail = fmt.Sprintf("there is none yet, a step has %s", humanize.Things(lacks.Needed, "row"))
	case s.Last == 0:
		detail = fmt.Sprintf("there is none yet, and the step needs them: %s", w.lacks())
	case lacks.Early:
		detail = w.lacks()
	}
	if x := w.wanted(); x != nil {
		facts["source"] = x.Name
		if w.Report.Several() {
			sentence += fmt.Sprintf(" of source %q", x.Name)
		}
		if x.Epochs.Another(x.Epoch + 1) {
			detail += fmt.Sprintf("; its next epoch begins when it is sealed (epochs: %s)", x.Epochs)
		}
	}
	if skipped := w.skipped(); skipped != "" {
		detail += "; " + skipped
	}
	do := w.whenDry()
	if w.Supply != nil {
		if why, mend, ok := w.Supply(facts["source"]); ok {
			detail = why + "; " + detail
			if do = "wait: the daemon fetches them itself"; mend != "" {
				do = mend
			}
		}
	}
	return stalled(fault.SourceDry, sentence+", "+humanize.Time(time.Since(s.DrySince)), detail, do, facts)
}

// exhausted reports whether the stream is not sealed and its last document is planned. In addition, no document may
// have been stored for dryFor or since the stream was opened.
func (w *wait) exhausted() bool {
	s := w.source
	quiet := time.Since(s.DrySince) >= min(dryFor, w.Options.Stall/2) || w.Report.Idle >= w.Report.Reading
	return !s.DrySince.IsZero() && s.Delivered >= s.Fetched && quiet && !w.sealed()
}

// sealed reports whether the stream that the plan waits for is sealed.
func (w *wait) sealed() bool {
	x := w.wanted()
	return x != nil && x.Sealed
}

// wanted returns the source of the next document; nil until the leader has reported it.
func (w *wait) wanted() *state.SourceStats {
	p := &w.Report.PlanStats
	if p.Wants >= len(p.Sources) {
		return nil
	}
	return &p.Sources[p.Wants]
}

// stream returns a readable name of the document stream that the plan waits for.
func (w *wait) stream() string {
	if x := w.wanted(); x != nil && w.Report.Several() {
		return fmt.Sprintf("source %q", x.Name)
	}
	return "the document stream"
}

// idle checks whether the planner reads no source until the mixture changes or a paused source has documents.
func (w *wait) idle() *fault.Error {
	p := &w.Report.PlanStats
	if !p.Idle {
		return nil
	}
	var rest, quoted []string
	for _, s := range p.Sources {
		if s.Resting && !s.Removed {
			rest = append(rest, s.Name)
			quoted = append(quoted, strconv.Quote(s.Name))
		}
	}
	if e := w.fullOf(time.Time{}, rest...); e != nil {
		return e
	}
	if len(rest) > 0 {
		return stalled(fault.SourceDry, "Waiting for documents of any source", "sources without documents: "+
			strings.Join(quoted, ", "),
			"publish more documents, or end the run with loaderd seal", map[string]string{"source": strings.Join(rest, ",")})
	}
	return stalled(fault.SourceDry, "Waiting for a change of the mixture",
		"no source that has documents left has a weight",
		"give one a weight with loaderd mix --set NAME=1", nil)
}

// whenDry returns the advice if no documents arrive, with at most one command.
func (w *wait) whenDry() string {
	const publish = "publish more documents, or "
	switch lacks := w.Report.PlanStats.Lacks; {
	case !w.Report.Several() && w.source.Last == 0:
		return "publish documents with loaderd publish"
	case lacks.Drains && w.Options.Linger > 0:
		return fmt.Sprintf("%swait: what is there is packed when the stream has been quiet for %s (serve.linger)",
			publish, w.Options.Linger)
	case lacks.Drains:
		return publish + "pack what is there with loaderd drain"
	case w.Report.Several():
		return publish + "end this source with loaderd seal " + w.wanted().Name
	case !lacks.Early || lacks.There == 0:
		return publish + "end the run with loaderd seal"
	case w.Config.Steps.Last == runconfig.LastPad:
		return fmt.Sprintf("%send the run with loaderd seal: its last step then has %s of documents and %d of padding",
			publish, humanize.Things(lacks.There, "row"), lacks.Needed-lacks.There)
	default:
		return fmt.Sprintf("%send the run with loaderd seal: what is left fills no step and is dropped", publish)
	}
}

// tokenizing checks whether the planner waits for the tokens of fetched documents.
func (w *wait) tokenizing() *fault.Error {
	s, r := w.source, &w.Report.PlanStats
	if !s.Tokenizing || s.Delivered >= s.Fetched || r.Cursor != r.CursorBefore {
		return nil
	}
	return stalled(fault.TokenizerBehind, fmt.Sprintf("Waiting for the tokenizer: %s behind",
		humanize.Things(int(s.Fetched-s.Delivered), "document")),
		fmt.Sprintf("they are fetched (%s)", humanize.Bytes(s.Buffered)), "wait, or give the daemon more stream.workers", nil)
}

// flowFor is how long after its last document a stream counts as flowing.
const flowFor = 10 * time.Second

// filling checks whether a document was fetched or planned, or the stream was opened, within flowFor.
func (w *wait) filling() *fault.Error {
	f, lacks := w.facts(), w.Report.PlanStats.Lacks
	if !w.Report.Reads() || w.Report.Idle >= flowFor {
		return nil
	}
	sentence := w.nextStep()
	switch {
	case w.Report.Idle >= w.Report.Reading:
		left := w.source.Last - w.source.Delivered
		if w.source.EpochLeft > 0 {
			left = w.source.EpochLeft
		}
		stored := humanize.Things(int(left), "document")
		return stalled(fault.PoolFilling, fmt.Sprintf("%s: reading begins, %s stored", sentence, stored),
			"none has been received yet", asks, nil)
	case lacks.Early:
		return w.firstStep()
	case lacks.Needed == 0: // no figures exist yet
		sentence += ": documents flow, pool and shuffle window fill"
	default:
		if lacks.Documents > 0 && w.Rates.Documents > 0 {
			sentence += " in about " + humanize.Time(
				time.Duration(float64(lacks.Documents)/w.Rates.Documents*float64(time.Second)))
		}
		sentence += fmt.Sprintf(": %s needed, %s there", humanize.Things(lacks.Needed, "row"), humanize.Count(lacks.There))
	}
	detail := fmt.Sprintf("documents flow, but the step is not full yet: %s; pool %s, shuffle window %s, queues %s",
		w.lacks(), f["pool"], f["window"], f["queued_rows"])
	if skipped := w.skipped(); skipped != "" {
		detail += "; " + skipped
	}
	return stalled(fault.PoolFilling, sentence, detail, asks, nil)
}

// disconnected checks whether the leader's connection to the servers is down. It runs after all more specific checks.
func (w *wait) disconnected() *fault.Error {
	c := w.Report.Connection
	if c == nil || c.Up {
		return nil
	}
	return stalled(fault.SourceDown, "Waiting for NATS, "+humanize.Time(time.Since(c.Since)), c.Error,
		"check the NATS server; the daemon reconnects by itself",
		map[string]string{"down_since": c.Since.UTC().Format(time.RFC3339Nano)})
}

// unknown returns the cause without evidence for any other one. It lists the available information.
func (w *wait) unknown() *fault.Error {
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
		add("%s has been opening for %s, %s", r.Opening.Stream(), humanize.Time(time.Since(r.Opening.Since)), last)
	case r.Source != nil:
		add("%s ends at document %d, %d received, %d tokenized", w.stream(), s.Last, s.Fetched, s.Delivered)
		add("the last one was received or planned %s ago", humanize.Time(r.Idle))
		facts["fetched_document"] = strconv.FormatUint(s.Fetched, 10)
		if !s.FetchedAt.IsZero() {
			facts["fetched_at"] = s.FetchedAt.UTC().Format(time.RFC3339Nano)
		}
	default:
		add("%s is not open", w.stream())
	}
	if r.Opening == nil && w.sealed() {
		add("it is sealed")
	}
	add("rows ready: %d of %d", r.PlanStats.Lacks.There, r.PlanStats.Lacks.Needed)
	if r.Storing > 0 {
		add("an append has taken %s", humanize.Time(r.Storing))
	}
	add("connection to NATS: %s", connection)
	return stalled(fault.CauseUnknown, fmt.Sprintf("Waiting for step %d: no cause found", w.Step),
		strings.Join(known, "; "),
		"look at the log of the daemon that plans the run, and at that of the NATS server", facts)
}

// skipped returns why documents are skipped, if at least half of the planned ones are; otherwise an empty string.
func (w *wait) skipped() string {
	c := &w.Report.PlanStats.Counts
	n := c.Skipped.Total()
	if n == 0 || 2*n < c.Arrived {
		return ""
	}
	return fmt.Sprintf("skipped %s: %s", humanize.Of(int(n), int(c.Arrived), "document"), c.Skipped)
}

// queueNote formats the rows that wait for a step, for example: 1024: 3 rows, a step has 48; 2048: 1 row, a step has
// 24.
func queueNote(queues []planner.QueueStat) string {
	parts := make([]string, len(queues))
	for i, q := range queues {
		parts[i] = fmt.Sprintf("%d: %s, a step has %d", q.Bucket, humanize.Things(q.Rows, "row"), q.Of)
	}
	return strings.Join(parts, "; ")
}

// nextStep returns the beginning of a sentence about the next step.
func (w *wait) nextStep() string {
	if w.Planned == 0 {
		return "First step"
	}
	return "Next step"
}

// note adds the figures of a shortage to the facts of a cause.
func note(s planner.Shortage, facts map[string]string) {
	if s.Needed == 0 {
		return // no figures exist yet
	}
	facts["rows_needed"], facts["rows_there"] = strconv.Itoa(s.Needed), strconv.Itoa(s.There)
	if s.Documents > 0 {
		facts["documents_needed"] = strconv.FormatInt(s.Documents, 10)
	}
}
