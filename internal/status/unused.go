package status

import (
	"cmp"
	"slices"

	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/plan"
)

// unusedDocuments returns the documents that a run does not use.
func unusedDocuments(s loader.Stats) api.UnusedDocuments {
	out := api.UnusedDocuments{Skipped: []api.SkippedStatus{}, Filters: filterStatuses(s)}
	for why, n := range s.Skipped.All() {
		if n > 0 {
			out.Skipped = append(out.Skipped, api.SkippedStatus{Reason: string(why), Documents: n, Text: why.Text(),
				Do: why.Do()})
		}
	}
	out.FilterCount = len(out.Filters)
	out.Filters = out.Filters[:min(len(out.Filters), api.MaxFilters)]
	return out
}

// filterStatuses returns the filter of all documents, and the sources with a filter or filtered documents, those with
// the most filtered documents first. It returns none for a run without filters and filtered documents.
func filterStatuses(s loader.Stats) (out []api.FilterStatus) {
	filtered := s.Skipped.Count(plan.SkipFiltered)
	for _, x := range s.Sources {
		n := x.Skipped.Count(plan.SkipFiltered)
		if x.Where != "" && !x.Removed || n > 0 && len(s.Sources) > 1 {
			out = append(out, api.FilterStatus{Source: x.Name, Where: x.Where, Documents: n})
		}
	}
	if len(out) == 0 && s.Where == "" && filtered == 0 {
		return nil
	}
	slices.SortFunc(out, func(a, b api.FilterStatus) int {
		return cmp.Or(cmp.Compare(b.Documents, a.Documents), cmp.Compare(a.Source, b.Source))
	})
	return slices.Insert(out, 0, api.FilterStatus{Where: s.Where, Documents: filtered})
}
