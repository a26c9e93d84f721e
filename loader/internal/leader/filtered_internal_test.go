package leader

import (
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
)

// Documents that a filter has rejected count until a used one, and until a filter changes.
func TestFilteredInRow_StartsAgainWithAChange(t *testing.T) {
	a, err := planner.NewApplier(plantest.Header(plantest.Config("bfd")))
	if err != nil {
		t.Fatal(err)
	}
	var r filteredInRow
	expect := func(what string, want int64) {
		t.Helper()
		if r.documents != want {
			t.Errorf("%s: %d documents, want %d", what, r.documents, want)
		}
	}
	r.add(a.Planner.Filters, 3, false)
	r.add(a.Planner.Filters, 1, false)
	expect("two arrivals", 4)
	r.add(a.Planner.Filters, 2, true)
	expect("a message with used and rejected documents", 2)
	a.Record(planrecord.Filter{Where: "tokens > 1"})
	if err := a.ApplyPending(func(planner.Ready) error { return nil }); err != nil {
		t.Fatal(err)
	}
	r.observeChanges(a.Planner.Filters)
	expect("a change", 0)
	r.add(a.Planner.Filters, 1, false)
	expect("an arrival after it", 1)
}
