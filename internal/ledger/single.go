package ledger

import (
	"cmp"
	"slices"

	"loaderd/loader/document"
)

// single is a document with its name.
type single struct {
	name  string
	index int32 // in its message
	document.Info
}

// each returns the documents of the step in order. Of a message with several documents it returns those that the step
// contains pieces of.
func (s Step) each() (all []single) {
	inner := map[messageKey][]single{}
	from := s.origins()
	for _, row := range s.Rows {
		for _, p := range row {
			if d := (messageKey{p.Source, p.Sequence}); p.Inner != nil {
				inner[d] = append(inner[d], single{within(p.Piece), p.Index, about(p.Piece, from[d])})
			}
		}
	}
	for _, d := range s.Documents {
		several := inner[of(d)]
		if several == nil {
			all = append(all, single{of(d).String(), 0, d})
			continue
		}
		slices.SortStableFunc(several, func(a, b single) int { return cmp.Compare(a.index, b.index) })
		all = append(all, slices.CompactFunc(several, func(a, b single) bool { return a.index == b.index })...)
	}
	return all
}
