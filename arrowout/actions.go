package arrowout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"loaderd/loader"
	"loaderd/packonline"
)

// action is an action that clients may ask for. Bodies and results are JSON.
type action struct {
	name, about string
	step        bool // whether the body has to name a step
	do          func(s *service, ctx context.Context, step uint64, send func(any) error) error
}

var actions = []action{
	{"commit", `{"run","step"}: the trainer's own durable checkpoint covers all steps before step`, true, (*service).commit},
	{"checkpoint", `{"run"}: store the planner's state now`, false, (*service).checkpoint},
	{"info", `{"run"}: the run, its fingerprint and configuration`, false, (*service).info},
	{"stats", `{"run"}: counts of the run since its start`, false, (*service).stats},
	{"ledger", `{"run","step"}: the rows of a step with their documents`, true, (*service).ledger},
	{"seal", `{"run"}: end the stream of documents behind its present last one`, false, (*service).seal},
	{"drain", `{"run"}: pack everything that is pending, then go on`, false, (*service).drain},
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
		step, err := parseAction(asked.GetBody(), a, s.run.Info())
		if err != nil {
			return err
		}
		return a.do(s, stream.Context(), step, func(result any) error {
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
func parseAction(b []byte, a action, info loader.Info) (step uint64, err error) {
	if len(b) == 0 {
		b = []byte("{}")
	}
	var run string
	named := false
	keys := map[string]func(json.RawMessage) error{"run": text(&run)}
	if a.step {
		keys["step"] = func(raw json.RawMessage) error { named = true; return number(&step, 0, maxNumber)(raw) }
	}
	err = decodeObject(b, keys)
	if err == nil && a.step && !named {
		err = errors.New(`the key "step" is missing`)
	}
	if err != nil {
		return 0, &loader.Error{Reason: loader.BadTicket, Message: fmt.Sprintf("body of action %s: %v", a.name, err), Do: "send " + a.about}
	}
	return step, checkRun(run, info)
}

func (s *service) commit(ctx context.Context, step uint64, send func(any) error) error {
	if err := s.run.Commit(ctx, step); err != nil {
		return err
	}
	return send(struct {
		Run       string `json:"run"`
		Committed uint64 `json:"committed"`
	}{s.run.Info().Run, s.run.Info().Committed})
}

func (s *service) checkpoint(ctx context.Context, _ uint64, send func(any) error) error {
	step, err := s.run.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return send(struct {
		Run  string `json:"run"`
		Step uint64 `json:"step"`
	}{s.run.Info().Run, step})
}

func (s *service) info(_ context.Context, _ uint64, send func(any) error) error {
	return send(s.run.Info())
}

func (s *service) stats(_ context.Context, _ uint64, send func(any) error) error {
	return send(s.run.Stats())
}

func (s *service) seal(ctx context.Context, _ uint64, send func(any) error) error {
	return s.position(send)(s.run.Seal(ctx))
}

func (s *service) drain(ctx context.Context, _ uint64, send func(any) error) error {
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
}

type ledgerPiece struct {
	Sequence uint64 `json:"sequence"`
	Start    int32  `json:"start"`
	Length   int32  `json:"length"`
}

// ledgerPieces bounds the pieces of a result, so that it stays under 4 MiB (a single row may have more).
const ledgerPieces = 16 << 10

func (s *service) ledger(ctx context.Context, index uint64, send func(any) error) error {
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
	pieces := 0
	for i, row := range step.Rows {
		if pieces > 0 && pieces+len(row) > ledgerPieces {
			if err := send(page); err != nil {
				return err
			}
			page.First, page.Rows, pieces = i, nil, 0
		}
		page.Rows = append(page.Rows, ledgerRow(row))
		pieces += len(row) + 1
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
