package action

import (
	"loaderd/arrowout/internal/batch"
	"loaderd/internal/api"
	"loaderd/loader/document"
	"loaderd/loader/plan"
)

// needsTokens reports whether describing the pieces of a step requires the tokens of their documents. That is so if
// messages may hold several documents or if tokens of the step have no loss. Otherwise each message is one document,
// and all tokens have a loss.
func needsTokens(s *batch.Sources, step *plan.Step) bool {
	return s.Config.Documents.CanHoldMultiple() || step.Masked > 0
}

// addDocumentDetails adds to pieces what their document specifies. It adds nothing if the document lacks these tokens,
// since then it is not the document that was planned.
func addDocumentDetails(s *batch.Sources, pieces []*api.Piece, d document.View) {
	for _, p := range pieces {
		n, there := d.LossTokens(p.Start+p.Repeats, p.Start+p.Length)
		if !there {
			continue
		}
		p.LossTokens = &n
		if in, several := d.InnerDocumentAt(p.Start); several {
			p.InnerDocument = &api.InnerDocument{Index: in.Index, Within: p.Start - in.Start, ID: in.ID, Weight: in.Weight,
				Meta: metaValues(s, d, p.Start)}
		}
	}
}

// metaValues returns the values, by name, of the document to which a token belongs.
func metaValues(s *batch.Sources, d document.View, token int32) (values map[string]any) {
	for place, name := range s.Config.Documents.MetaColumns() {
		value := d.MetaValue(place, token)
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

// setFullLoss sets the number of loss tokens of pieces whose tokens all have a loss.
func setFullLoss(pieces []*api.Piece) {
	for _, p := range pieces {
		p.LossTokens = &p.Length
	}
}
