package arrowout

import (
	"context"

	"loaderd/loader"
	"loaderd/packonline"
)

// foundRow is one result of the find action: a row that holds a part of the document.
type foundRow struct {
	Run    string        `json:"run"`
	Step   uint64        `json:"step"`
	Bucket int32         `json:"bucket"`
	Row    int           `json:"row"`
	Pieces []ledgerPiece `json:"pieces"` // of the document, in the row
}

// find sends the rows that hold a document, in order. A document that no step holds yet has none.
func (s *service) find(ctx context.Context, q asked, send func(any) error) error {
	if (q.sequence == 0) == (q.id == "") {
		return &loader.Error{Reason: loader.BadTicket, Message: "body of action find: name a document by its sequence or by its id", Do: `send {"sequence":N} or {"id":"..."}`}
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
		err := s.run.Find(ctx, sequence, func(step *loader.Step, row int, pieces []packonline.Piece) error {
			return send(foundRow{run, step.Index, step.Bucket, row, ledgerRow(pieces)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
