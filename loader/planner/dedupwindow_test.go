package planner_test

import (
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
)

// A document is a duplicate if one of the last documents has its id, including skipped documents and duplicates. A
// document without an id is never a duplicate.
func TestDedupe_DuplicatesOfLastDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := plantest.Config("concat")
		c.Documents.Dedupe = rapid.IntRange(0, 6).Draw(t, "dedupe")
		p := newPlanner(t, c)
		ids := rapid.SliceOfN(rapid.Uint64Range(0, 4), 20, 60).Draw(t, "ids")
		for i, id := range ids {
			before, _ := p.Counts()
			if _, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: 3, ID: id}); err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			for _, last := range ids[max(0, i-c.Documents.Dedupe):i] {
				if id != 0 && last == id {
					want = 1
				}
			}
			if after, _ := p.Counts(); after.Skipped.Count(plan.SkipDuplicate)-before.Skipped.Count(plan.SkipDuplicate) != want {
				t.Fatalf("id %d behind %v: counted as %d duplicates, want %d", id, ids[:i],
					after.Skipped.Count(plan.SkipDuplicate)-before.Skipped.Count(plan.SkipDuplicate), want)
			}
		}
	})
}
