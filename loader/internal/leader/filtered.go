package leader

import "loaderd/loader/planner"

// filteredInRow counts the documents that filters have rejected since the last used one, and since a filter changed.
type filteredInRow struct {
	documents int64
	changes   int // planner.Filters.Changes
}

// add counts the rejected documents of an arrival; used reports whether it has used ones.
func (r *filteredInRow) add(f *planner.Filters, rejected int64, used bool) {
	r.observeChanges(f)
	if used {
		r.documents = 0
	}
	r.documents += rejected
}

// observeChanges forgets the documents that were rejected before a filter changed.
func (r *filteredInRow) observeChanges(f *planner.Filters) {
	if n := f.Changes(); n != r.changes {
		r.changes, r.documents = n, 0
	}
}
