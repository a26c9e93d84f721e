package action

import (
	"context"
	"slices"

	"loaderd/arrowout/internal/batch"
	"loaderd/arrowout/internal/refusal"
	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// find sends the rows that hold a document, in order. It sends nothing for a document that is in no step yet.
func (h *Handler) find(ctx context.Context, q requestBody, send func(any) error) error {
	if (q.sequence == 0) == (q.id == "") {
		return &fault.Error{Reason: fault.InvalidTicket,
			Message: "body of action find: name a document by its sequence or by its id",
			Advice:  `send {"sequence":N} or {"id":"..."}`}
	}
	info := h.run.Info()
	documents, err := documentRefs(ctx, h.run, q, info)
	if err != nil {
		return err
	}
	named := SourcesOf(h.run, info)
	for _, document := range documents {
		f := documentSearch{handler: h, sources: named, document: document, id: q.id}
		err := h.run.FindRows(ctx, document, func(step *plan.Step, row int, _ []packonline.Piece) error {
			if err := named.EnsureKnown(ctx, step); err != nil {
				return err
			}
			pieces, err := f.pieces(ctx, step, row)
			if err != nil || len(pieces) == 0 {
				return err
			}
			return send(api.FoundRow{Run: info.Run, Step: step.Index, Bucket: int(step.Bucket), Row: row, Pieces: pieces})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// documentSearch is the search for a document, or for a document within a message of several.
type documentSearch struct {
	handler  *Handler
	sources  *batch.Sources
	document uint64
	id       string         // id of the document; empty if the search is by sequence
	view     *document.View // set once a step holds the document and it must be read; empty if it was purged
}

// pieces returns the pieces of a row that belong to the document. If the message holds documents with the id that is
// searched for, it returns only their pieces.
func (f *documentSearch) pieces(ctx context.Context, step *plan.Step, row int) ([]api.Piece, error) {
	told := needsTokens(f.sources, step)
	if told && f.view == nil {
		shown, err := f.handler.run.ViewDocument(ctx, f.document)
		if err != nil && !isLost(err) {
			return nil, err
		}
		f.view = &shown
	}
	within := told && f.id != "" && slices.Contains(f.view.IDs, f.id)
	var found []api.Piece
	for k, p := range apiRow(f.sources, step, row) {
		if step.Rows[row][k].Doc != f.document {
			continue
		}
		if one := []*api.Piece{&p}; told {
			addDocumentDetails(f.sources, one, *f.view)
		} else {
			setFullLoss(one)
		}
		if !within || p.InnerDocument != nil && p.ID == f.id {
			found = append(found, p)
		}
	}
	return found, nil
}

// documentRefs returns the references of the documents to find. An id may match documents of all sources, or of the one
// that is named.
func documentRefs(ctx context.Context, r Documents, q requestBody, info loader.Info) ([]uint64, error) {
	if q.id == "" {
		document, there, err := documentRef("find", q, info)
		if err != nil || !there {
			return nil, err
		}
		return []uint64{document}, nil
	}
	number, err := sourceNumber("find", q, info)
	if err != nil {
		return nil, err
	}
	documents, err := r.LookupDocument(ctx, q.id)
	if q.source != "" {
		documents = slices.DeleteFunc(documents, func(d uint64) bool { return plan.RefSource(d) != number })
	}
	return documents, err
}

// documentRef returns the reference of the document with a sequence. there is false for a sequence that no source can
// have.
func documentRef(action string, q requestBody, info loader.Info) (document uint64, there bool, err error) {
	number, err := sourceNumber(action, q, info)
	switch {
	case err != nil:
		return 0, false, err
	case q.source == "" && len(info.Sources) > 1:
		return 0, false, invalidBodyError(action, "each source has separate sequences",
			`send {"source":"...","sequence":N}`)
	case q.sequence != plan.RefSequence(q.sequence):
		return 0, false, nil
	}
	return plan.Ref(number, q.sequence), true, nil
}

// sourceNumber returns the number of the source that a body names, 0 if it names none.
func sourceNumber(action string, q requestBody, info loader.Info) (int, error) {
	number := slices.IndexFunc(info.Sources, func(x plan.SourceInfo) bool { return x.Name == q.source })
	if q.source != "" && number < 0 {
		return 0, invalidBodyError(action, "the run has no source "+refusal.Excerpt([]byte(q.source)),
			"info lists its sources")
	}
	return max(number, 0), nil
}
