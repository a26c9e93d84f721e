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

// find sends the rows that hold a document, in order. A document that no step holds yet has none.
func (h *Handler) find(ctx context.Context, q asked, send func(any) error) error {
	if (q.sequence == 0) == (q.id == "") {
		return &fault.Error{Reason: fault.BadTicket,
			Message: "body of action find: name a document by its sequence or by its id",
			Do:      `send {"sequence":N} or {"id":"..."}`}
	}
	info := h.run.Info()
	documents, err := h.documents(ctx, q, info)
	if err != nil {
		return err
	}
	named := SourcesOf(h.run, info)
	for _, document := range documents {
		f := finding{handler: h, named: named, document: document, id: q.id}
		err := h.run.Find(ctx, document, func(step *plan.Step, row int, _ []packonline.Piece) error {
			if err := named.Meet(ctx, step); err != nil {
				return err
			}
			pieces, err := f.pieces(ctx, step, row)
			if err != nil || len(pieces) == 0 {
				return err
			}
			return send(api.Found{Run: info.Run, Step: step.Index, Bucket: int(step.Bucket), Row: row, Pieces: pieces})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// finding is the search for a document, or for a document in a message of several.
type finding struct {
	handler  *Handler
	named    *batch.Sources
	document uint64
	id       string         // of the document; empty where it is sought by its sequence
	shown    *document.View // once a step holds it and it is to be read; empty when it is not there any more
}

// pieces are those of a row that are of the document that is sought: where the message holds documents of its id, of
// these alone.
func (f *finding) pieces(ctx context.Context, step *plan.Step, row int) ([]api.Piece, error) {
	told := told(f.named, step)
	if told && f.shown == nil {
		shown, err := f.handler.run.Show(ctx, f.document)
		if err != nil && !isLost(err) {
			return nil, err
		}
		f.shown = &shown
	}
	within := told && f.id != "" && slices.Contains(f.shown.IDs, f.id)
	var found []api.Piece
	for k, p := range shownRow(f.named, step, row) {
		if step.Rows[row][k].Doc != f.document {
			continue
		}
		if one := []*api.Piece{&p}; told {
			tell(f.named, one, *f.shown)
		} else {
			whole(one)
		}
		if !within || p.Inner != nil && p.ID == f.id {
			found = append(found, p)
		}
	}
	return found, nil
}

// documents are those that somebody looks for, as the plan names them: by an id those of all sources, or of one.
func (h *Handler) documents(ctx context.Context, q asked, info loader.Info) ([]uint64, error) {
	if q.id == "" {
		document, there, err := reference("find", q, info)
		if err != nil || !there {
			return nil, err
		}
		return []uint64{document}, nil
	}
	number, err := sourceNumber("find", q, info)
	if err != nil {
		return nil, err
	}
	documents, err := h.run.Lookup(ctx, q.id)
	if q.source != "" {
		documents = slices.DeleteFunc(documents, func(d uint64) bool { return plan.RefSource(d) != number })
	}
	return documents, err
}

// reference is the document of a sequence, as the plan names it. there is false for a sequence that no source has.
func reference(action string, q asked, info loader.Info) (document uint64, there bool, err error) {
	number, err := sourceNumber(action, q, info)
	switch {
	case err != nil:
		return 0, false, err
	case q.source == "" && len(info.Sources) > 1:
		return 0, false, badBody(action, "each source has sequences of its own", `send {"source":"...","sequence":N}`)
	case q.sequence != plan.RefSequence(q.sequence):
		return 0, false, nil
	}
	return plan.Ref(number, q.sequence), true, nil
}

// sourceNumber is the number of the source that a body names, 0 where it names none.
func sourceNumber(action string, q asked, info loader.Info) (int, error) {
	number := slices.IndexFunc(info.Sources, func(x plan.SourceInfo) bool { return x.Name == q.source })
	if q.source != "" && number < 0 {
		return 0, badBody(action, "the run has no source "+refusal.Excerpt([]byte(q.source)), "info names its sources")
	}
	return max(number, 0), nil
}
