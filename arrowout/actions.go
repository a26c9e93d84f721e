package arrowout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/caller"
	"loaderd/arrowout/internal/refusal"
	"loaderd/arrowout/internal/request"
	"loaderd/internal/access"
	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
)

// action is an action that clients may ask for. Bodies and results are JSON.
type action struct {
	name  string
	role  access.Role // that it takes
	about string
	keys  string // of its body beside run; "?" behind one that may be missing, ":" before how it is read where its name does not tell
	do    func(s *service, ctx context.Context, q asked, send func(any) error) error
	cost  cost
}

// cost is what an action costs others.
type cost int

const (
	costLittle cost = iota
	costRecord      // a record of the plan, for ever, or a state in the object store
	costSearch      // a reading of much of the plan
	costScrape      // a gathering of all metrics
)

// asked is the body of an action.
type asked struct {
	step      uint64
	keeper    string
	documents bool
	sequence  uint64
	id        string
	source    string
	start     uint64 // first token
	tokens    uint64 // at most; 0 where that is not said
	count     uint64 // of documents, likewise
	change    mixture.Change
	dryRun    bool
	decided   *uint64 // behind so many steps a change of the mixture was decided on, and is made once
	request   string  // identifies the request for a change of the mixture
	rank      rankReport
}

var actions = []action{
	{"commit", access.Train, `{"run","step","keeper"}: the keeper's own durable checkpoint covers all steps before step`, "step keeper?", (*service).commit, costRecord},
	{"leave", access.Train, `{"run","keeper"}: the keeper holds no checkpoints any more`, "keeper?", (*service).leave, costRecord},
	{"checkpoint", access.Operate, `{"run"}: store the planner's state now`, "", (*service).checkpoint, costRecord},
	{"info", access.Read, `{"run"}: the run, its fingerprint and configuration`, "", (*service).info, costLittle},
	{"stats", access.Read, `{"run"}: counts of the run since its start`, "", (*service).stats, costLittle},
	{"measure", access.Train, `{"run"}: count how many steps the run will have, in the background; info tells how far that is`, "", (*service).measure, costSearch},
	{"status", access.Read, `{"run"}: how the run does: a sentence, rates, stages, sources, ranks, daemons, events`, "", (*service).status, costLittle},
	{"history", access.Read, `{"run"}: how the run went, by step and by time`, "", (*service).history, costLittle},
	{"cause", access.Read, `{"run","step"}: why the step is not there yet, while a reader waits for it`, "step", (*service).cause, costLittle},
	{"consumed", access.Read, `{"run","job","rank","world","peer","session","taken","waiting","still","left"}: the steps that the trainer of a rank has taken`,
		"job? rank? world? peer? session taken waiting? still? left?", (*service).consumed, costLittle},
	{"ledger", access.Operate, `{"run","step","documents"}: the rows of a step; with documents: true, where its documents came from`, "step documents?", (*service).ledger, costLittle},
	{"find", access.Operate, `{"run","sequence"} or {"run","id"}: the rows that hold a document; of a run with several sources {"run","source","sequence"}`, "sequence? id? source?", (*service).find, costSearch},
	{"text", access.Operate, `{"run","sequence","start","tokens"}: a document's tokens from start on, each with the text that it stands for; of a run with several sources {"run","source","sequence"}`, "source? sequence start? tokens?", (*service).text, costLittle},
	{"peek", access.Operate, `{"run","source","documents","tokens"}: the next documents that are planned, as text has them; without source those of the only source, or the next of each`, "source? documents:count? tokens?", (*service).peek, costSearch},
	{"mix", access.Operate, `{"run","weights","add","remove","decided","request_id","dry_run"}: change the mixture of sources; without a change, tell how it stands`, "weights? add? remove? decided? request_id? dry_run?", (*service).mix, costRecord},
	{"seal", access.Operate, `{"run","source"}: end the stream of documents behind its present last one; without source, that of all sources`, "source?", (*service).seal, costRecord},
	{"drain", access.Operate, `{"run"}: pack everything that is pending, then go on`, "", (*service).drain, costRecord},
}

// ListActions lists the actions with the keys of their bodies.
func (s *service) ListActions(_ *flight.Empty, stream flight.FlightService_ListActionsServer) error {
	for _, a := range actions {
		if err := stream.Send(&flight.ActionType{Type: a.name, Description: a.about}); err != nil {
			return err
		}
	}
	return nil
}

// DoAction carries one action out.
func (s *service) DoAction(asked *flight.Action, stream flight.FlightService_DoActionServer) error {
	return s.act(stream.Context(), asked.GetType(), asked.GetBody(), func(result []byte) error { return stream.Send(&flight.Result{Body: result}) })
}

// act carries one action out for whoever ctx says has called, and hands its results to send.
func (s *service) act(ctx context.Context, name string, body []byte, send func(result []byte) error) error {
	for _, a := range actions {
		if a.name != name {
			continue
		}
		who := caller.Of(ctx)
		q, err := parseAction(body, a, s.run.Info())
		if err == nil {
			q.keeper = cmp.Or(q.keeper, who.Keeper(plan.DefaultKeeper))
			err = permits(who, a, q, s.needs(a, q))
		}
		done := func() {}
		if err == nil {
			done, err = s.limits.action(who, a.name, a.costs(q))
		}
		if err == nil {
			defer done()
			err = a.do(s, ctx, q, func(result any) error {
				b, err := json.Marshal(result)
				if err != nil {
					return fmt.Errorf("encode the result of %s: %w", a.name, err)
				}
				return send(b)
			})
		}
		if s.needs(a, q) != access.Read && !isLimited(err) {
			s.audit.tell(ctx, who, a, q, err)
		}
		return err
	}
	return unsupported("unknown action "+refusal.Excerpt([]byte(name)), "ListActions names the ones there are")
}

// isLimited says whether a call was refused because there are too many: nothing was looked at.
func isLimited(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Reason == fault.Limited
}

// permits refuses what an identity may not do.
func permits(who access.Identity, a action, q asked, needs access.Role) error {
	switch {
	case !who.Role.Includes(needs):
		return refusal.Forbidden(who, fmt.Sprintf("action %s takes the role %s, and it has the role %s", a.name, needs, who.Role))
	case strings.Contains(a.keys, "keeper") && !who.Keeps(q.keeper):
		return refusal.Forbidden(who, fmt.Sprintf("keeper %s is not its own", refusal.Excerpt([]byte(q.keeper))))
	}
	return nil
}

// parseAction reads an action's body; an empty one stands for {}.
func parseAction(b []byte, a action, info loader.Info) (asked, error) {
	if len(b) == 0 {
		b = []byte("{}")
	}
	q := asked{}
	run, id := info.Run, ""
	reported := q.rank.keys()
	keys := map[string]func(json.RawMessage) error{"run": request.RunName(&run), "run_id": request.RunID(&id)}
	var missing []string
	for key := range strings.FieldsSeq(a.keys) {
		key, optional := strings.CutSuffix(key, "?")
		key, as, _ := strings.Cut(key, ":")
		if !optional {
			missing = append(missing, key)
		}
		read := map[string]func(json.RawMessage) error{"step": request.Number(&q.step, 0, request.MaxNumber), "keeper": request.Text(&q.keeper), "documents": request.Boolean(&q.documents),
			"sequence": request.Number(&q.sequence, 1, request.MaxNumber), "id": request.Text(&q.id), "request_id": request.Text(&q.request), "source": request.Text(&q.source), "dry_run": request.Boolean(&q.dryRun),
			"start": request.Number(&q.start, 0, request.MaxNumber), "tokens": request.Number(&q.tokens, 1, maxTextTokens), "count": request.Number(&q.count, 1, maxPeek),
			"weights": request.Object(&q.change.Weights, request.Weight), "add": request.Object(&q.change.Add, request.Source(info.Config)), "remove": request.Strings(&q.change.Remove),
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
		return q, &fault.Error{Reason: fault.BadTicket, Message: fmt.Sprintf("body of action %s: %v", a.name, err), Do: "send " + a.about}
	}
	return q, request.CheckRun(run, id, info)
}

func (s *service) commit(ctx context.Context, q asked, send func(any) error) error {
	who, keepers := caller.Of(ctx), s.run.Info().Keepers
	done, err := s.limits.keeper(who, q.keeper, keepers)
	if err != nil {
		return err
	}
	defer done()
	if err := s.checkSent(ctx, who, q, keepers); err != nil {
		return err
	}
	committed, err := s.run.Commit(ctx, q.keeper, q.step)
	return s.keepers(committed, err, send)
}

// checkSent refuses a commit of steps that no job of the caller was sent. One by a keeper of what it has committed before changes nothing.
func (s *service) checkSent(ctx context.Context, who access.Identity, q asked, keepers plan.Keepers) error {
	if who.Role.Includes(access.Operate) || q.step <= keepers[q.keeper] {
		return nil
	}
	sent := s.run.Sent(ctx, q.step, who.Keeps)
	if q.step <= sent {
		return nil
	}
	e := refusal.Forbidden(who, fmt.Sprintf("commit of step %d for keeper %s: its jobs were sent the steps before %d", q.step, refusal.Excerpt([]byte(q.keeper)), sent))
	e.Do = "commit what its jobs have read; where a daemon has restarted since, open the job's stream first"
	e.Facts["step"], e.Facts["sent"] = strconv.FormatUint(q.step, 10), strconv.FormatUint(sent, 10)
	return e
}

func (s *service) leave(ctx context.Context, q asked, send func(any) error) error {
	committed, err := s.run.Leave(ctx, q.keeper)
	return s.keepers(committed, err, send)
}

func (s *service) keepers(committed uint64, err error, send func(any) error) error {
	if err != nil {
		return err
	}
	return send(api.Committed{Run: s.run.Info().Run, Step: committed})
}

func (s *service) checkpoint(ctx context.Context, _ asked, send func(any) error) error {
	step, err := s.run.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return send(api.Checkpoint{Run: s.run.Info().Run, Step: step})
}

func (s *service) info(_ context.Context, _ asked, send func(any) error) error {
	info := s.run.Info()
	info.Columns = batch.Names(info.Config)
	return send(info)
}

func (s *service) measure(ctx context.Context, _ asked, send func(any) error) error {
	if err := s.run.Measure(ctx); err != nil {
		return err
	}
	info := s.run.Info()
	return send(api.Measured{Run: info.Run, Length: info.Length})
}

func (s *service) stats(_ context.Context, _ asked, send func(any) error) error {
	return send(s.run.Stats())
}

func (s *service) cause(_ context.Context, q asked, send func(any) error) error {
	answer := api.Cause{Run: s.run.Info().Run, Step: q.step}
	if e := s.run.Cause(q.step); e != nil {
		answer.Reason, answer.Message, answer.Do, answer.Facts = e.Reason, e.Message, e.Do, e.Facts
	}
	return send(answer)
}

func (s *service) seal(ctx context.Context, q asked, send func(any) error) error {
	if q.source != "" {
		sequence, err := s.run.SealSource(ctx, q.source, caller.Of(ctx).Name)
		if err != nil {
			return err
		}
		return send(api.Recorded{Run: s.run.Info().Run, Sequence: sequence, Source: q.source})
	}
	return s.position(send)(s.run.SealBy(ctx, caller.Of(ctx).Name))
}

func (s *service) drain(ctx context.Context, _ asked, send func(any) error) error {
	return s.position(send)(s.run.DrainBy(ctx, caller.Of(ctx).Name))
}

func (s *service) position(send func(any) error) func(uint64, error) error {
	return func(sequence uint64, err error) error {
		if err != nil {
			return err
		}
		return send(api.Recorded{Run: s.run.Info().Run, Sequence: sequence})
	}
}
