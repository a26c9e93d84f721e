package arrowout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"loaderd/arrowout/answers"
	"loaderd/loader"
	"loaderd/packonline"
)

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
	page := answers.Page{Step: answers.Step{Run: run, Index: step.Index, Bucket: int(step.Bucket), Cursor: step.Cursor.Last()}, Total: len(step.Rows)}
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
func (s *service) page(ctx context.Context, page answers.Page, describe bool, send func(any) error) error {
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

func ledgerRow(row []packonline.Piece) []answers.Piece {
	out := make([]answers.Piece, len(row))
	for i, p := range row {
		out[i] = answers.Piece{Sequence: p.Doc, Start: p.Start, Length: p.Length}
	}
	return out
}
