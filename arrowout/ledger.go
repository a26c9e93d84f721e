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
	named := sourcesOf(s.run, s.run.Info())
	if err := named.meet(ctx, step); err != nil {
		return err
	}
	page := answers.Page{Step: answers.Step{Run: run, Index: step.Index, Bucket: int(step.Bucket), Cursor: step.Cursor.Last(), Masked: step.Masked}, Total: len(step.Rows)}
	pieces, most, repeats := 0, ledgerPieces, step.Repeats
	if q.documents {
		most = describedPieces
	}
	for i, row := range step.Rows {
		if pieces > 0 && pieces+len(row) > most {
			if err := s.page(ctx, page, named, described(step.Rows[page.First:i], q.documents), send); err != nil {
				return err
			}
			page.First, page.Rows, pieces = i, nil, 0
		}
		shown := named.row(row)
		for len(repeats) > 0 && repeats[0].Row == i {
			shown[repeats[0].Piece].Repeats = repeats[0].Tokens
			repeats = repeats[1:]
		}
		page.Rows = append(page.Rows, shown)
		pieces += len(row) + 1
	}
	return s.page(ctx, page, named, described(step.Rows[page.First:], q.documents), send)
}

// described are the documents of rows, each once, when they are to be described.
func described(rows [][]packonline.Piece, describe bool) (documents []uint64) {
	if !describe {
		return nil
	}
	for _, row := range rows {
		for _, p := range row {
			documents = append(documents, p.Doc)
		}
	}
	slices.Sort(documents)
	return slices.Compact(documents)
}

// page sends a part of a step, with where these documents came from.
func (s *service) page(ctx context.Context, page answers.Page, named *sources, documents []uint64, send func(any) error) error {
	if len(documents) == 0 {
		return send(page)
	}
	page.Documents = make([]loader.DocumentInfo, len(documents))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(ledgerFetches)
	for i, document := range documents {
		g.Go(func() (err error) {
			page.Documents[i], err = s.run.Describe(ctx, document)
			if e := (*loader.Error)(nil); errors.As(err, &e) && e.Reason == loader.DocumentLost {
				page.Documents[i], err = loader.DocumentInfo{Source: named.name(document), Sequence: named.sequence(document)}, nil // released: that is all that is known
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return send(page)
}

// row is a row as it is shown.
func (s *sources) row(row []packonline.Piece) []answers.Piece {
	out := make([]answers.Piece, len(row))
	for i, p := range row {
		out[i] = answers.Piece{Source: s.name(p.Doc), Sequence: s.sequence(p.Doc), Start: p.Start, Length: p.Length}
	}
	return out
}
