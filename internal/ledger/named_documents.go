package ledger

import (
	"cmp"
	"slices"

	"loaderd/loader/document"
)

// namedDocument is a document with its name.
type namedDocument struct {
	name  string
	index int32 // in its message
	document.Info
}

// namedDocuments returns the documents of the step in order. Of a message with several documents it returns those that
// the step contains pieces of.
func (s Step) namedDocuments() (all []namedDocument) {
	inner := map[messageKey][]namedDocument{}
	from := s.origins()
	for _, row := range s.Rows {
		for _, p := range row {
			if d := (messageKey{p.Source, p.Sequence}); p.InnerDocument != nil {
				inner[d] = append(inner[d], namedDocument{documentName(p.Piece), p.Index, documentInfo(p.Piece, from[d])})
			}
		}
	}
	for _, d := range s.Documents {
		several := inner[messageKeyOf(d)]
		if several == nil {
			all = append(all, namedDocument{messageKeyOf(d).String(), 0, d})
			continue
		}
		slices.SortStableFunc(several, func(a, b namedDocument) int { return cmp.Compare(a.index, b.index) })
		all = append(all, slices.CompactFunc(several, func(a, b namedDocument) bool { return a.index == b.index })...)
	}
	return all
}
