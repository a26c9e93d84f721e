package action

import (
	"loaderd/arrowout/internal/batch"
	"loaderd/internal/api"
	"loaderd/loader/document"
	"loaderd/loader/plan"
)

// told reports whether the pieces of a step are known only with their documents' tokens: which documents of their
// messages they are of, or which of their tokens have a loss. Elsewhere each piece is of a message that is one
// document, and all tokens have a loss.
func told(s *batch.Sources, step *plan.Step) bool {
	return s.Config.Documents.Several() || step.Masked > 0
}

// tell says of pieces of a document what the document tells: nothing where it has not these tokens, as one that is not
// the one that was planned.
func tell(s *batch.Sources, pieces []*api.Piece, d document.View) {
	for _, p := range pieces {
		n, there := d.LossTokens(p.Start+p.Repeats, p.Start+p.Length)
		if !there {
			continue
		}
		p.LossTokens = &n
		if in, several := d.Inner(p.Start); several {
			p.Inner = &api.Inner{Index: in.Index, Within: p.Start - in.Start, ID: in.ID, Weight: in.Weight,
				Meta: meta(s, d, p.Start)}
		}
	}
}

// meta are the values of the document that a token is of, by their names.
func meta(s *batch.Sources, d document.View, token int32) (values map[string]any) {
	for place, name := range s.Config.Documents.MetaColumns() {
		value := d.Meta(place, token)
		if value == nil {
			continue
		}
		if values == nil {
			values = map[string]any{}
		}
		values[name] = value
	}
	return values
}

// whole says of pieces whose tokens all have a loss that they have.
func whole(pieces []*api.Piece) {
	for _, p := range pieces {
		p.LossTokens = &p.Length
	}
}
