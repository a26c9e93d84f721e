package planner_test

import (
	"slices"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
)

// pieces returns the n pieces of a split document, of two tokens each.
func pieces(id uint64, n int) (parts []plan.Part) {
	for k := range n {
		parts = append(parts, plan.Part{ID: id, Length: 2, SplitIndex: k})
	}
	return parts
}

// If a document is repeated, all of its pieces are duplicates. Pieces of one document are not duplicates of one
// another.
func TestDedupe_PiecesOfOneDocumentAreNoDuplicates(t *testing.T) {
	c := plantest.Config("concat")
	c.Documents.MaxTokens = runconfig.MaxTokens{At: 2, Do: runconfig.MaxSplit}
	p, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		parts      []plan.Part
		duplicates int64 // total
	}{{pieces(7, 3), 0}, {pieces(7, 3), 3}, {pieces(8, 2), 3}, {pieces(7, 1), 4}, {pieces(0, 3), 4}, {pieces(0, 3), 4}} {
		if _, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Parts: tt.parts}); err != nil {
			t.Fatal(err)
		}
		if counts, _ := p.Counts(); counts.Skipped.Count(plan.SkipDuplicate) != tt.duplicates {
			t.Errorf("%d duplicates behind message %d, want %d", counts.Skipped.Count(plan.SkipDuplicate), i+1, tt.duplicates)
		}
	}
}

// A source takes either all pieces of a document or none, by the document's id or position. Several documents in one
// message are decided independently.
func TestSplit_TakesWholeDocuments(t *testing.T) {
	split := plan.Selection{Config: mixture.Source{Split: mixture.Split{Of: 3, Take: []int{1, 1}}}}
	took := map[int]int{}
	for sequence := range uint64(200) {
		for _, id := range []uint64{0, sequence} {
			a := plan.Arrival{Sequence: sequence, Parts: slices.Concat(pieces(id, 3), pieces(id+1, 1), pieces(id+2, 2))}
			if id == 0 {
				for i := range a.Parts {
					a.Parts[i].ID = 0
				}
			}
			var taken []int
			for i := range a.Parts {
				one := a
				one.Parts = slices.Clone(a.Parts)
				for k := range one.Parts {
					if k != i {
						one.Parts[k].Skip = plan.SkipEmpty
					}
				}
				taken = append(taken, one.UsedTokens(&split))
			}
			took[a.UsedTokens(&split)]++
			if taken[0] != taken[1] || taken[0] != taken[2] || taken[4] != taken[5] {
				t.Errorf("of message %d of documents %d ... come %d tokens", sequence, id, taken)
			}
		}
	}
	if len(took) < 6 { // any subset of 3, 1 and 2 pieces
		t.Errorf("messages are used by %v", took)
	}
}

// A run that neither takes messages of several documents nor splits documents rejects such messages.
func TestPlanner_RefusesUnexpectedMultiDocumentMessages(t *testing.T) {
	p, err := planner.New(plantest.Header(plantest.Config("concat")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Add(plan.Arrival{Sequence: 1, Parts: pieces(1, 2)}); err == nil {
		t.Error("they are planned")
	}
}

// Documents that are cut or skipped for their length are counted, also by a planner restored from a state.
func TestPlanner_CountsLongDocuments(t *testing.T) {
	c := plantest.Config("concat")
	p, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	arrivals := []plan.Arrival{{Length: 5}, {Length: 9, Cut: true}, {Skip: plan.SkipLong}, {Length: 9, Cut: true, ID: 7},
		{Length: 9, Cut: true, ID: 7}, {Skip: plan.SkipLong}}
	for i, a := range arrivals {
		a.Sequence = uint64(i + 1)
		if _, err := p.Add(a); err != nil {
			t.Fatal(err)
		}
		next, err := planner.New(plantest.Header(c))
		if err != nil {
			t.Fatal(err)
		}
		if err := next.RestoreState(p.AppendState(nil)); err != nil {
			t.Fatal(err)
		}
		p = next
	}
	if counts, _ := p.Counts(); counts.Cut != 2 || counts.Skipped.Count(plan.SkipLong) != 2 ||
		counts.Skipped.Count(plan.SkipDuplicate) != 1 {
		t.Errorf("%+v", counts)
	}
}
