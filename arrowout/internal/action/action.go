package action

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/caller"
	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/request"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// Handler carries out the actions of clients of one run.
type Handler struct {
	run         Run
	allActions  []Action // All, to which it may not refer directly (initialization cycle)
	limits      *limits
	audit       audit
	report      func(at state.RankID, client string) // records a report of a client that reads at a place
	trainMayMix bool                                 // the role train may change the mixture

	// Set before the first action:
	StatusProvider StatusProvider                    // nil: status and history are unavailable
	TokenText      func(dst []byte, id int32) []byte // appends the text of a token; nil if unavailable
}

// Config configures a Handler.
type Config struct {
	CommittingJobsPerIdentity int  // limit on committing jobs of one identity
	TrainMayMix               bool // the role train may change the mixture
}

// NewHandler returns a handler of actions. It calls report for each client that reports what its trainer has taken.
func NewHandler(run Run, c Config, report func(at state.RankID, client string), log *slog.Logger) *Handler {
	return &Handler{
		run: run, allActions: All, limits: newLimits(c.CommittingJobsPerIdentity), audit: audit{log.With("part", "audit")},
		report:      report,
		trainMayMix: c.TrainMayMix,
	}
}

// SetLimits changes the limit on committing jobs of one identity.
func (h *Handler) SetLimits(committingJobsPerIdentity int) { h.limits.set(committingJobsPerIdentity) }

// CountScrape counts a request for metrics of an identity. It returns an error if the identity exceeds the limit.
func (h *Handler) CountScrape(who auth.Identity) error {
	_, err := h.limits.countAction(who, "requests for metrics", costScrape)
	return err
}

// Action is an action that clients may request. Bodies and results are JSON.
type Action struct {
	Name  string
	Role  auth.Role // required role
	About string
	// Keys lists the keys of the body, without run. "?" follows an optional key. After ":" is the type of a key whose
	// name does not imply it.
	Keys string
	run  func(h *Handler, ctx context.Context, q requestBody, send func(any) error) error
	cost cost
}

// cost is the class of resources that an action uses.
type cost int

const (
	costLow    cost = iota
	costRecord      // a permanent record of the plan, or a state in the object store
	costSearch      // reads a large part of the plan
	costScrape      // collects all metrics
)

// requestBody is the parsed body of an action.
type requestBody struct {
	step      uint64
	steps     uint64 // number of steps from step on; 0 if not given
	skipped   uint64
	skips     string // of the action resize, as text
	job       string
	documents bool
	sequence  uint64
	id        string
	source    string
	start     uint64 // first token
	tokens    uint64 // maximum number of tokens; 0 if not given
	count     uint64 // maximum number of documents; 0 if not given
	change    mixture.Change
	where     *string // of the action filter; nil if not given
	phases    []runconfig.Phase
	dryRun    bool
	decided   *uint64 // the step after which a change of the mixture was decided; it is then applied only once
	requestID string  // identifies the request for a change of the mixture
	report    rankReport
}

// All lists the actions in the order of the documentation.
var All = []Action{
	{"commit", auth.Train, `{"run","step","job","skipped"}: the job's own durable checkpoint covers all steps before step, of which it has ` +
		`skipped some`, "step job? skipped?", (*Handler).commit, costRecord},
	{"leave", auth.Train, `{"run","job"}: the job no longer needs documents for its checkpoints`, "job?", (*Handler).leave,
		costRecord},
	{"checkpoint", auth.Operate, `{"run"}: store the planner's state now`, "", (*Handler).checkpoint, costRecord},
	{"info", auth.Read, `{"run"}: the run, its fingerprint and configuration`, "", (*Handler).info, costLow},
	{"stats", auth.Read, `{"run"}: counts of the run since its start`, "", (*Handler).stats, costLow},
	{"measure", auth.Train,
		`{"run"}: count the run's steps in the background; info reports the progress`, "",
		(*Handler).measure, costSearch},
	{"status", auth.Read, `{"run"}: the state of the run: a sentence, rates, stages, sources, ranks, daemons, events`, "",
		(*Handler).status, costLow},
	{"history", auth.Read, `{"run"}: the history of the run, by step and by time`, "", (*Handler).history, costLow},
	{"cause", auth.Read, `{"run","step"}: why the step is not planned yet, while a reader waits for it`, "step",
		(*Handler).cause, costLow},
	{"consumed", auth.Read,
		`{"run","job","rank","world","peer","session","taken","waiting","still","left"}: the steps that the trainer of a rank has consumed`,
		"job? rank? world? peer? session taken waiting? still? left?", (*Handler).consumed, costLow},
	{"resize", auth.Train,
		`{"run","job","rank","world","peer","session","request_id","step","skip","left"}: the rank reads as rank of world ` +
			`from step on; repeat it until all ranks have agreed`,
		"job? rank world peer? session request_id? step skip? left?", (*Handler).resize, costLow},
	{"ledger", auth.Operate,
		`{"run","step","steps","documents"}: the rows of a step, or of so many steps from it on; with documents: true, also ` +
			`the origin of their documents`, "step steps? documents?", (*Handler).ledger, costLow},
	{"find", auth.Operate,
		`{"run","sequence"} or {"run","id"}: the rows that hold a document; of a run with several sources {"run","source","sequence"}`, "sequence? id? source?", (*Handler).find, costSearch},
	{"text", auth.Operate,
		`{"run","sequence","start","tokens"}: a document's tokens from start on, each with its text; of a run with several sources {"run","source","sequence"}`, "source? sequence start? tokens?", (*Handler).text, costLow},
	{"peek", auth.Operate,
		`{"run","source","documents","tokens"}: the next documents to be planned, with tokens as in text; without source those of the only source, or the next of each`, "source? documents:count? tokens?", (*Handler).peek, costSearch},
	{"mix", auth.Operate,
		`{"run","weights","add","remove","decided","request_id","dry_run"}: change the mixture of sources; without a change, return its state`, "weights? add? remove? decided? request_id? dry_run?", (*Handler).mix, costRecord},
	{"filter", auth.Operate,
		`{"run","where","source","dry_run"}: replace the filter of all documents or of a source; without where, return the filters`, "where? source? dry_run?", (*Handler).filter, costRecord},
	{"schedule", auth.Operate,
		`{"run","phases","request_id","dry_run"}: replace the phases of steps that have not begun; without phases, return all`,
		"phases? request_id? dry_run?", (*Handler).schedule, costRecord},
	{"seal", auth.Operate,
		`{"run","source"}: end the document stream at its current last document; without source, the streams of all sources`,
		"source?", (*Handler).seal, costRecord},
	{"flush", auth.Operate, `{"run"}: pack all buffered documents and continue`, "", (*Handler).flush, costRecord},
}

// Do carries out one action for the caller of ctx, and passes its results to send as JSON. It returns a *fault.Error
// if the action is refused.
func (h *Handler) Do(ctx context.Context, name string, body []byte, send func(result []byte) error) error {
	for _, a := range All {
		if a.Name != name {
			continue
		}
		who := caller.Identity(ctx)
		q, err := parseAction(body, a, h.run.Info())
		if err == nil {
			q.job = cmp.Or(q.job, who.Job(planrecord.DefaultJob))
			err = checkPermission(who, a, q, h.requiredRole(a, q))
		}
		done := func() {}
		if err == nil {
			done, err = h.limits.countAction(who, a.Name, a.costOf(q))
		}
		if err == nil {
			defer done()
			err = a.run(h, ctx, q, func(result any) error {
				b, err := json.Marshal(result)
				if err != nil {
					return fmt.Errorf("encode the result of %s: %w", a.Name, err)
				}
				return send(b)
			})
		}
		repeated := a.Name == "resize" && err == nil // resize logs the agreement
		if h.requiredRole(a, q) != auth.Read && !isLimited(err) && !repeated {
			h.audit.logAction(ctx, who, a, q, err)
		}
		return err
	}
	return refusal.Unsupported("unknown action "+refusal.Excerpt([]byte(name)), "ListActions lists the actions")
}

// isLimited reports whether a call was refused because of a limit, so that it had no effect.
func isLimited(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Reason == fault.Limited
}

// checkPermission returns an error if an identity may not use an action.
func checkPermission(who auth.Identity, a Action, q requestBody, needs auth.Role) error {
	switch {
	case !who.Role.Includes(needs):
		return refusal.Forbidden(who, fmt.Sprintf("action %s needs the role %s, and it has the role %s", a.Name,
			needs, who.Role))
	case strings.Contains(a.Keys, "job") && !who.MayCommitFor(q.job):
		return refusal.Forbidden(who, fmt.Sprintf("job %s belongs to another identity", refusal.Excerpt([]byte(q.job))))
	}
	return nil
}

// parseAction parses an action's body. An empty body means {}.
func parseAction(b []byte, a Action, info loader.Info) (requestBody, error) {
	if len(b) == 0 {
		b = []byte("{}")
	}
	q := requestBody{}
	run, id := info.Run, ""
	reported := q.report.keys()
	keys := map[string]func(json.RawMessage) error{"run": request.RunName(&run), "run_id": request.RunID(&id)}
	var missing []string
	for key := range strings.FieldsSeq(a.Keys) {
		key, optional := strings.CutSuffix(key, "?")
		key, as, _ := strings.Cut(key, ":")
		if !optional {
			missing = append(missing, key)
		}
		read := map[string]func(json.RawMessage) error{"step": request.Number(&q.step, 0, request.MaxNumber),
			"steps":   request.Number(&q.steps, 1, maxLedgerSteps),
			"skipped": request.Number(&q.skipped, 0, request.MaxNumber),
			"skip":    readSkips(&q.skips),
			"job":     request.JobName(&q.job), "documents": request.Boolean(&q.documents),
			"sequence": request.Number(&q.sequence, 1, request.MaxNumber), "id": request.Text(&q.id),
			"request_id": request.Text(&q.requestID), "source": request.Text(&q.source), "dry_run": request.Boolean(&q.dryRun),
			"start": request.Number(&q.start, 0, request.MaxNumber), "tokens": request.Number(&q.tokens, 1, maxTextTokens),
			"count":   request.Number(&q.count, 1, maxPeekDocuments),
			"weights": request.Object(&q.change.Weights, request.Weight),
			"add":     request.Object(&q.change.Add, request.Source(info.Config)), "remove": request.Strings(&q.change.Remove),
			"where": func(raw json.RawMessage) error {
				q.where = new(string)
				return request.Text(q.where)(raw)
			},
			"phases": readPhases(&q.phases),
			"decided": func(raw json.RawMessage) error {
				q.decided = new(uint64)
				return request.Number(q.decided, 0, request.MaxNumber)(raw)
			}}[cmp.Or(as, key)]
		if read == nil {
			read = reported[key]
		}
		keys[key] = func(raw json.RawMessage) error {
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == key })
			return read(raw)
		}
	}
	err := request.DecodeObject(b, keys)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the key %q is missing", missing[0])
	}
	if err != nil {
		return q, &fault.Error{Reason: fault.InvalidTicket, Message: fmt.Sprintf("body of action %s: %v", a.Name, err),
			Advice: "send " + a.About}
	}
	return q, request.CheckRun(run, id, info)
}

func (h *Handler) commit(ctx context.Context, q requestBody, send func(any) error) error {
	who, info := caller.Identity(ctx), h.run.Info()
	done, err := h.limits.job(who, q.job, info)
	if err != nil {
		return err
	}
	defer done()
	if err := h.checkSent(ctx, who, q, info.Commits); err != nil {
		return err
	}
	committed, err := h.run.RecordCommit(ctx, planrecord.Commit{Job: q.job, Step: q.step, Skipped: q.skipped})
	return sendCommitted(h.run.Info().Run, committed, err, send)
}

// checkSent refuses a commit of steps that were sent to no job of the caller. A job may repeat an earlier commit,
// which changes nothing.
func (h *Handler) checkSent(ctx context.Context, who auth.Identity, q requestBody, commits planrecord.Commits) error {
	if who.Role.Includes(auth.Operate) || q.step <= commits[q.job].Step {
		return nil
	}
	sent := h.run.SentSteps(ctx, q.step, who.MayCommitFor)
	if q.step <= sent {
		return nil
	}
	e := refusal.Forbidden(who, fmt.Sprintf("commit of step %d for job %s: its jobs were only sent the steps before %d",
		q.step, refusal.Excerpt([]byte(q.job)), sent))
	e.Advice = "commit only steps that its jobs have read; after a restart of the daemon, open the job's stream first"
	e.Facts["step"], e.Facts["sent"] = strconv.FormatUint(q.step, 10), strconv.FormatUint(sent, 10)
	return e
}

func (h *Handler) leave(ctx context.Context, q requestBody, send func(any) error) error {
	committed, err := h.run.Leave(ctx, q.job)
	return sendCommitted(h.run.Info().Run, committed, err, send)
}

// sendCommitted sends the step before which all jobs have committed, or returns err.
func sendCommitted(run string, step uint64, err error, send func(any) error) error {
	if err != nil {
		return err
	}
	return send(api.CommitResponse{Run: run, Step: step})
}

func (h *Handler) checkpoint(ctx context.Context, _ requestBody, send func(any) error) error {
	step, err := h.run.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return send(api.CheckpointResponse{Run: h.run.Info().Run, Step: step})
}

func (h *Handler) info(_ context.Context, _ requestBody, send func(any) error) error {
	info := h.run.Info()
	info.Columns = batch.ColumnNames(info.Config)
	return send(info)
}

func (h *Handler) measure(ctx context.Context, _ requestBody, send func(any) error) error {
	if err := h.run.Measure(ctx); err != nil {
		return err
	}
	info := h.run.Info()
	return send(api.MeasureResponse{Run: info.Run, Length: info.Length})
}

func (h *Handler) stats(_ context.Context, _ requestBody, send func(any) error) error {
	return send(h.run.Stats())
}

func (h *Handler) cause(_ context.Context, q requestBody, send func(any) error) error {
	answer := api.CauseResponse{Run: h.run.Info().Run, Step: q.step}
	if e := h.run.Cause(q.step); e != nil {
		answer.Reason, answer.Message, answer.Do, answer.Facts = e.Reason, e.Message, e.Advice, e.Facts
	}
	return send(answer)
}

func (h *Handler) seal(ctx context.Context, q requestBody, send func(any) error) error {
	if q.source != "" {
		sequence, err := h.run.SealSource(ctx, q.source, caller.Identity(ctx).Name)
		if err != nil {
			return err
		}
		return send(api.RecordResponse{Run: h.run.Info().Run, Sequence: sequence, Source: q.source})
	}
	sequence, err := h.run.SealBy(ctx, caller.Identity(ctx).Name)
	return sendRecorded(h.run.Info().Run, sequence, err, send)
}

func (h *Handler) flush(ctx context.Context, _ requestBody, send func(any) error) error {
	sequence, err := h.run.FlushBy(ctx, caller.Identity(ctx).Name)
	return sendRecorded(h.run.Info().Run, sequence, err, send)
}

// sendRecorded sends the sequence of the document at which something is recorded, or returns err.
func sendRecorded(run string, sequence uint64, err error, send func(any) error) error {
	if err != nil {
		return err
	}
	return send(api.RecordResponse{Run: run, Sequence: sequence})
}
