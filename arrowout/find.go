package arrowout

import (
	"context"

	"loaderd/arrowout/answers"
	"loaderd/loader"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// find sends the rows that hold a document, in order. A document that no step holds yet has none.
func (s *service) find(ctx context.Context, q asked, send func(any) error) error {
	if (q.sequence == 0) == (q.id == "") {
		return &loader.Error{Reason: loader.BadTicket, Message: "body of action find: name a document by its sequence or by its id",
			Do: `send {"sequence":N} or {"id":"..."}`}
	}
	sequences := []uint64{q.sequence}
	if q.id != "" {
		var err error
		if sequences, err = s.run.Lookup(ctx, q.id); err != nil {
			return err
		}
	}
	run := s.run.Info().Run
	for _, sequence := range sequences {
		err := s.run.Find(ctx, sequence, func(step *plan.Step, row int, pieces []packonline.Piece) error {
			return send(answers.Found{Run: run, Step: step.Index, Bucket: int(step.Bucket), Row: row, Pieces: ledgerRow(pieces)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
