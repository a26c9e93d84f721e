package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"

	"golang.org/x/sync/errgroup"

	"loaderd/arrowout/internal/batch"
	"loaderd/internal/api"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
)

// ledgerPieces bounds the pieces of a result, so that it is below 4 MiB. A single row may have more.
const ledgerPieces = 16 << 10

// describedPieces bounds the pieces of a result that includes the paths of documents. maxLedgerFetches is how many
// documents are fetched in parallel. maxLedgerReads applies if they are tokenized too, because a message may have 64
// MiB.
const (
	describedPieces  = 1 << 10
	maxLedgerFetches = 8
	maxLedgerReads   = 2
)

// maxLedgerSteps is the maximum number of steps of one request.
const maxLedgerSteps = 256

func (h *Handler) ledger(ctx context.Context, q requestBody, send func(any) error) error {
	steps := stepSender{handler: h, described: q.documents, send: send}
	for step := q.step; step < q.step+max(q.steps, 1); step++ {
		if err := steps.sendStep(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// stepSender sends the rows of steps. If described is true, it includes the origin of their documents.
type stepSender struct {
	handler   *Handler
	described bool
	send      func(any) error
}

func (s stepSender) sendStep(ctx context.Context, index uint64) error {
	h := s.handler
	step, err := h.run.Step(ctx, index)
	info := h.run.Info()
	run := info.Run
	if errors.Is(err, io.EOF) {
		return &fault.Error{Reason: fault.StepNotPlanned, Message: fmt.Sprintf("run %q ended before step %d", run, index),
			Advice: "request an earlier step", Facts: map[string]string{"step": strconv.FormatUint(index, 10)}}
	}
	if err != nil {
		return err
	}
	named := SourcesOf(h.run, h.run.Info())
	if err := named.EnsureKnown(ctx, step); err != nil {
		return err
	}
	page := api.LedgerPage{Step: api.Step{Run: run, Index: step.Index, Bucket: int(step.Bucket),
		Cursor: step.Cursor.Last(),
		Masked: step.Masked, WorldSizes: info.WorldSizes.Before(step.Index)}, Total: len(step.Rows)}
	pieces, most := 0, ledgerPieces
	if s.described {
		most = describedPieces
	}
	for i, row := range step.Rows {
		if pieces > 0 && pieces+len(row) > most {
			if err := s.sendPage(ctx, page, named, step); err != nil {
				return err
			}
			page.First, page.Rows, pieces = i, nil, 0
		}
		page.Rows = append(page.Rows, apiRow(named, step, i))
		pieces += len(row) + 1
	}
	return s.sendPage(ctx, page, named, step)
}

// sendPage sends a part of a step.
func (s stepSender) sendPage(ctx context.Context, page api.LedgerPage, named *batch.Sources, step *plan.Step) error {
	if !s.described {
		return s.send(page)
	}
	pieces := map[uint64][]*api.Piece{} // by document
	for i, row := range page.Rows {
		for k, p := range step.Rows[page.First+i] {
			pieces[p.Doc] = append(pieces[p.Doc], &row[k])
		}
	}
	documents := slices.Sorted(maps.Keys(pieces))
	page.Documents = make([]document.Info, len(documents))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxLedgerFetches)
	if needsTokens(named, step) {
		g.SetLimit(maxLedgerReads)
	}
	for i, document := range documents {
		g.Go(func() (err error) {
			page.Documents[i], err = s.handler.describeDocument(ctx, named, step, document, pieces[document])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return s.send(page)
}

// describeDocument returns the origin of a document, and adds to its pieces what only the document specifies. For a
// purged document only its reference is known.
func (h *Handler) describeDocument(ctx context.Context, named *batch.Sources, step *plan.Step, ref uint64,
	pieces []*api.Piece) (info document.Info, err error) {
	if needsTokens(named, step) {
		var shown document.View
		shown, err = h.run.ViewDocument(ctx, ref)
		info = shown.Info
		addDocumentDetails(named, pieces, shown)
	} else {
		info, err = h.run.Describe(ctx, ref)
		setFullLoss(pieces)
	}
	if isLost(err) {
		return document.Info{Source: named.Name(ref), Sequence: plan.RefSequence(ref)}, nil
	}
	return info, err
}

// isLost reports whether a document is no longer in its stream.
func isLost(err error) bool {
	e := (*fault.Error)(nil)
	return errors.As(err, &e) && e.Reason == fault.DocumentLost
}

// apiRow converts a row of a step to its JSON form.
func apiRow(s *batch.Sources, step *plan.Step, i int) []api.Piece {
	out := make([]api.Piece, len(step.Rows[i]))
	for k, p := range step.Rows[i] {
		out[k] = api.Piece{Source: s.Name(p.Doc), Sequence: plan.RefSequence(p.Doc), Start: p.Start, Length: p.Length}
	}
	first := sort.Search(len(step.Repeats), func(k int) bool { return step.Repeats[k].Row >= i })
	for _, r := range step.Repeats[first:] {
		if r.Row > i {
			break
		}
		out[r.Piece].Repeats = r.Tokens
	}
	return out
}
