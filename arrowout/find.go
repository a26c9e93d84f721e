package arrowout

import (
	"context"
	"slices"

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
	info := s.run.Info()
	documents, err := s.documents(ctx, q, info)
	if err != nil {
		return err
	}
	named := sourcesOf(s.run, info)
	for _, document := range documents {
		err := s.run.Find(ctx, document, func(step *plan.Step, row int, pieces []packonline.Piece) error {
			if err := named.meet(ctx, step); err != nil {
				return err
			}
			return send(answers.Found{Run: info.Run, Step: step.Index, Bucket: int(step.Bucket), Row: row, Pieces: named.row(pieces)})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// documents are those that somebody looks for, as the plan names them: by an id those of all sources, or of one.
func (s *service) documents(ctx context.Context, q asked, info loader.Info) ([]uint64, error) {
	number := slices.IndexFunc(info.Sources, func(x plan.SourceInfo) bool { return x.Name == q.source })
	switch {
	case q.source != "" && number < 0:
		return nil, badBody("find", "the run has no source "+excerpt([]byte(q.source)), "info names its sources")
	case q.id == "" && q.source == "" && info.Config.Mixed():
		return nil, badBody("find", "each source has sequences of its own", `send {"source":"...","sequence":N}`)
	case q.id == "" && q.sequence != plan.RefSequence(q.sequence) && info.Config.Mixed():
		return nil, nil // no source has it
	case q.id == "":
		return []uint64{plan.Ref(max(number, 0), q.sequence)}, nil
	}
	documents, err := s.run.Lookup(ctx, q.id)
	if number >= 0 {
		documents = slices.DeleteFunc(documents, func(d uint64) bool { return plan.RefSource(d) != number })
	}
	return documents, err
}
