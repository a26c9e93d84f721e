package arrowout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"golang.org/x/sync/errgroup"

	"loaderd/loader"
	"loaderd/packonline"
)

// action is an action that clients may ask for. Bodies and results are JSON.
type action struct {
	name, about string
	keys        string // of its body beside run; "?" behind one that may be missing
	do          func(s *service, ctx context.Context, q asked, send func(any) error) error
}

// asked is the body of an action.
type asked struct {
	step      uint64
	keeper    string
	documents bool
	sequence  uint64
	id        string
}

var actions = []action{
	{"commit", `{"run","step","keeper"}: the keeper's own durable checkpoint covers all steps before step`, "step keeper?", (*service).commit},
	{"leave", `{"run","keeper"}: the keeper holds no checkpoints any more`, "keeper?", (*service).leave},
	{"checkpoint", `{"run"}: store the planner's state now`, "", (*service).checkpoint},
	{"info", `{"run"}: the run, its fingerprint and configuration`, "", (*service).info},
	{"stats", `{"run"}: counts of the run since its start`, "", (*service).stats},
	{"cause", `{"run","step"}: why the step is not there yet, while a reader waits for it`, "step", (*service).cause},
	{"ledger", `{"run","step","documents"}: the rows of a step; with documents: true, where its documents came from`, "step documents?", (*service).ledger},
	{"find", `{"run","sequence"} or {"run","id"}: the rows that hold a document`, "sequence? id?", (*service).find},
	{"seal", `{"run"}: end the stream of documents behind its present last one`, "", (*service).seal},
	{"drain", `{"run"}: pack everything that is pending, then go on`, "", (*service).drain},
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
	for _, a := range actions {
		if a.name != asked.GetType() {
			continue
		}
		q, err := parseAction(asked.GetBody(), a, s.run.Info())
		if err != nil {
			return err
		}
		return a.do(s, stream.Context(), q, func(result any) error {
			b, err := json.Marshal(result)
			if err != nil {
				return fmt.Errorf("encode the result of %s: %w", a.name, err)
			}
			return stream.Send(&flight.Result{Body: b})
		})
	}
	return unsupported("unknown action "+excerpt([]byte(asked.GetType())), "ListActions names the ones there are")
}

// parseAction reads an action's body; an empty one stands for {}.
func parseAction(b []byte, a action, info loader.Info) (asked, error) {
	if len(b) == 0 {
		b = []byte("{}")
	}
	q := asked{keeper: loader.DefaultKeeper}
	run := info.Run
	keys := map[string]func(json.RawMessage) error{"run": runName(&run)}
	missing := ""
	for _, key := range strings.Fields(a.keys) {
		key, optional := strings.CutSuffix(key, "?")
		if !optional {
			missing = key
		}
		read := map[string]func(json.RawMessage) error{"step": number(&q.step, 0, maxNumber), "keeper": text(&q.keeper), "documents": boolean(&q.documents),
			"sequence": number(&q.sequence, 1, maxNumber), "id": text(&q.id)}[key]
		keys[key] = func(raw json.RawMessage) error {
			if missing == key {
				missing = ""
			}
			return read(raw)
		}
	}
	err := decodeObject(b, keys)
	if err == nil && missing != "" {
		err = fmt.Errorf("the key %q is missing", missing)
	}
	if err != nil {
		return q, &loader.Error{Reason: loader.BadTicket, Message: fmt.Sprintf("body of action %s: %v", a.name, err), Do: "send " + a.about}
	}
	return q, checkRun(run, info)
}

func (s *service) commit(ctx context.Context, q asked, send func(any) error) error {
	committed, err := s.run.Commit(ctx, q.keeper, q.step)
	return s.keepers(committed, err, send)
}

func (s *service) leave(ctx context.Context, q asked, send func(any) error) error {
	committed, err := s.run.Leave(ctx, q.keeper)
	return s.keepers(committed, err, send)
}

// keepers answers what stands, not what was asked for.
func (s *service) keepers(committed uint64, err error, send func(any) error) error {
	if err != nil {
		return err
	}
	return send(struct {
		Run       string `json:"run"`
		Committed uint64 `json:"committed"`
	}{s.run.Info().Run, committed})
}

func (s *service) checkpoint(ctx context.Context, _ asked, send func(any) error) error {
	step, err := s.run.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return send(struct {
		Run  string `json:"run"`
		Step uint64 `json:"step"`
	}{s.run.Info().Run, step})
}

func (s *service) info(_ context.Context, _ asked, send func(any) error) error {
	return send(s.run.Info())
}

func (s *service) stats(_ context.Context, _ asked, send func(any) error) error {
	return send(s.run.Stats())
}

// cause answers with what a reader that waits for the step would be told at the stall timeout; without a reason when the step is there.
func (s *service) cause(_ context.Context, q asked, send func(any) error) error {
	result := struct {
		Run     string            `json:"run"`
		Step    uint64            `json:"step"`
		Reason  loader.Reason     `json:"reason,omitempty"`
		Message string            `json:"message,omitempty"`
		Do      string            `json:"do,omitempty"`
		Facts   map[string]string `json:"facts,omitempty"`
	}{Run: s.run.Info().Run, Step: q.step}
	if e := s.run.Cause(q.step); e != nil {
		result.Reason, result.Message, result.Do, result.Facts = e.Reason, e.Message, e.Do, e.Facts
	}
	return send(result)
}

func (s *service) seal(ctx context.Context, _ asked, send func(any) error) error {
	return s.position(send)(s.run.Seal(ctx))
}

func (s *service) drain(ctx context.Context, _ asked, send func(any) error) error {
	return s.position(send)(s.run.Drain(ctx))
}

func (s *service) position(send func(any) error) func(uint64, error) error {
	return func(sequence uint64, err error) error {
		if err != nil {
			return err
		}
		return send(struct {
			Run      string `json:"run"`
			Sequence uint64 `json:"sequence"`
		}{s.run.Info().Run, sequence})
	}
}

// ledgerPage is one result of the ledger action: a long step comes as several, each a part of its rows.
type ledgerPage struct {
	Run    string          `json:"run"`
	Step   uint64          `json:"step"`
	Bucket int32           `json:"bucket"`
	Cursor uint64          `json:"cursor"` // last document that the planner had seen
	Total  int             `json:"total"`  // rows of the step
	First  int             `json:"first"`  // first row of this result
	Rows   [][]ledgerPiece `json:"rows"`
	// Documents are those of the rows, in order of their sequences, when the request asks for them.
	Documents []loader.DocumentInfo `json:"documents,omitempty"`
}

type ledgerPiece struct {
	Sequence uint64 `json:"sequence"`
	Start    int32  `json:"start"`
	Length   int32  `json:"length"`
}

// ledgerPieces bounds the pieces of a result, so that it stays under 4 MiB (a single row may have more).
const ledgerPieces = 16 << 10

// describedPieces bounds them when each comes with its document's path, and ledgerFetches how many are fetched at a time.
const (
	describedPieces = 1 << 10
	ledgerFetches   = 8
)

func (s *service) ledger(ctx context.Context, q asked, send func(any) error) error {
	index := q.step
	step, err := s.run.Step(ctx, index)
	run := s.run.Info().Run
	if errors.Is(err, io.EOF) {
		return &loader.Error{Reason: loader.StepNotPlanned, Message: fmt.Sprintf("run %q ended before step %d", run, index),
			Do: "ask for an earlier step", Facts: map[string]string{"step": strconv.FormatUint(index, 10)}}
	}
	if err != nil {
		return err
	}
	page := ledgerPage{Run: run, Step: step.Index, Bucket: step.Bucket, Cursor: step.Cursor, Total: len(step.Rows)}
	pieces, most := 0, ledgerPieces
	if q.documents {
		most = describedPieces
	}
	for i, row := range step.Rows {
		if pieces > 0 && pieces+len(row) > most {
			if err := s.page(ctx, page, q.documents, send); err != nil {
				return err
			}
			page.First, page.Rows, pieces = i, nil, 0
		}
		page.Rows = append(page.Rows, ledgerRow(row))
		pieces += len(row) + 1
	}
	return s.page(ctx, page, q.documents, send)
}

// page sends a part of a step, with where its documents came from when that is asked for.
func (s *service) page(ctx context.Context, page ledgerPage, describe bool, send func(any) error) error {
	if !describe {
		return send(page)
	}
	var sequences []uint64
	for _, row := range page.Rows {
		for _, p := range row {
			sequences = append(sequences, p.Sequence)
		}
	}
	slices.Sort(sequences)
	sequences = slices.Compact(sequences)
	page.Documents = make([]loader.DocumentInfo, len(sequences))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(ledgerFetches)
	for i, sequence := range sequences {
		g.Go(func() (err error) {
			page.Documents[i], err = s.run.Describe(ctx, sequence)
			if e := (*loader.Error)(nil); errors.As(err, &e) && e.Reason == loader.DocumentLost {
				page.Documents[i], err = loader.DocumentInfo{Sequence: sequence}, nil // released: that is all that is known
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return send(page)
}

func ledgerRow(row []packonline.Piece) []ledgerPiece {
	out := make([]ledgerPiece, len(row))
	for i, p := range row {
		out[i] = ledgerPiece{p.Doc, p.Start, p.Length}
	}
	return out
}
