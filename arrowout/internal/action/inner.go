package action

import (
	"loaderd/arrowout/internal/batch"
	"loaderd/internal/api"
	"loaderd/loader/document"
	"loaderd/loader/plan"
)

// told reports whether describing the pieces of a step requires the tokens of their documents. That is so if messages
// may hold several documents or if tokens of the step have no loss. Otherwise each message is one document, and all
// tokens have a loss.
func told(s *batch.Sources, step *plan.Step) bool {
	return s.Config.Documents.Several() || step.Masked > 0
}

// tell adds to pieces what their document specifies. It adds nothing if the document lacks these tokens, since then
// it is not the document that was planned.
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

// meta returns the values, by name, of the document to which a token belongs.
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

// whole sets the number of loss tokens of pieces whose tokens all have a loss.
func whole(pieces []*api.Piece) {
	for _, p := range pieces {
		p.LossTokens = &p.Length
	}
}
