package planrecord_test

import (
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/packonline"
)

// rowsOf returns a step of two rows of 8 tokens, made after a document.
func rowsOf(index, cursor, lowWatermark uint64, pieces ...packonline.Piece) *plan.Step {
	return &plan.Step{Index: index, Bucket: 8, Cursor: plan.PositionAfter(cursor),
		LowWatermark: plan.PositionBefore(lowWatermark),
		Rows:         [][]packonline.Piece{pieces, nil}}
}

// The validator accepts a record where a leader could have written it, and rejects it elsewhere.
func TestValidator_AcceptsRecordsOnlyInPlace(t *testing.T) {
	c := plantest.Config("concat")
	c.Packing.Buckets, c.Steps.Rows = []int{8}, 2
	header := plantest.Header(c)
	term, piece := planrecord.Term{Daemon: "d"}, packonline.Piece{Doc: 5, Length: 8}
	for _, tt := range []struct {
		name    string
		records []any // entries and steps; all but the last are valid at their position
		wrong   string
	}{
		{"a run", []any{term, rowsOf(0, 5, 3, piece), planrecord.Flush{Arrival: 7}, rowsOf(1, 7, 8),
			planrecord.Commit{Job: "a", Step: 2},
			term, planrecord.SealSource{Arrival: 7, Last: 9}, rowsOf(2, 9, 10),
			planrecord.End{Steps: 3}, resize(3), planrecord.Leave{Job: "a"}, planrecord.Commit{Job: "b", Step: 3}, resize(1),
			term}, ""},
		{"a world size of a later step", []any{term, rowsOf(0, 5, 3), resize(2)},
			"changes its world size at step 2, but 1 steps precede"},
		{"a step before a term", []any{rowsOf(0, 5, 3)}, "precedes the first term"},
		{"a seal before a term", []any{planrecord.SealSource{Arrival: 3, Last: 3}}, "precedes the first term"},
		{"a second header", []any{term, header}, "a header follows"},
		{"a step left out", []any{term, rowsOf(1, 5, 3)}, "found step 1 where step 0 was expected"},
		{"a step twice", []any{term, rowsOf(0, 5, 3), rowsOf(0, 5, 3)}, "found step 0 where step 1 was expected"},
		{"a commit beyond", []any{term, rowsOf(0, 5, 3), planrecord.Commit{Job: "a", Step: 2}},
			"commits all steps before 2"},
		{"an end without a seal", []any{term, rowsOf(0, 5, 3), planrecord.End{Steps: 1}}, "the end of a source is not known"},
		{"an end elsewhere", []any{term, planrecord.SealSource{Arrival: 9, Last: 9}, planrecord.End{Steps: 1}},
			"with 1 steps, but 0"},
		{"an end twice", []any{term, planrecord.SealSource{Arrival: 9, Last: 9}, planrecord.End{}, planrecord.End{}},
			"it ends the run"},
		{"a step behind the end", []any{term, planrecord.SealSource{Arrival: 9, Last: 9}, planrecord.End{}, rowsOf(0, 9, 3)},
			"behind the end"},
		{"a flush behind the end", []any{term, planrecord.SealSource{Arrival: 9, Last: 9}, planrecord.End{},
			planrecord.Flush{Arrival: 9}},
			"behind the end"},
		{"a seal behind a seal", []any{term, planrecord.SealSource{Arrival: 9, Last: 9},
			planrecord.SealSource{Arrival: 9, Requester: "a", Last: 9}},
			"follows behind the end of that source"},
		{"a request", []any{term, planrecord.Seal{Requester: "a"}}, "it is a request"},
		{"a source that the run has not", []any{term, planrecord.SealSource{Arrival: 9, Source: 1, Last: 9}}, "no source 1"},
		{"a seal in the past", []any{term, rowsOf(0, 5, 3), planrecord.SealSource{Arrival: 4, Last: 9}},
			"planned after arrival 5"},
		{"a flush in the past", []any{term, rowsOf(0, 5, 3), planrecord.Flush{Arrival: 4}}, "planned after arrival 5"},
		{"a document behind the last one", []any{term, planrecord.SealSource{Arrival: 3, Last: 4}, rowsOf(0, 5, 3, piece)},
			"documents 1 to 4"},
		{"a cursor that goes back", []any{term, rowsOf(0, 5, 3), rowsOf(1, 4, 3)}, "goes back"},
		{"a floor that goes back", []any{term, rowsOf(0, 5, 3), rowsOf(1, 6, 2)}, "goes back"},
		{"a floor behind the cursor", []any{term, rowsOf(0, 5, 7)}, "its floor is 7"},
		{"a document to come", []any{term, rowsOf(0, 4, 3, piece)}, "names document 5"},
		{"a document that is used up", []any{term, rowsOf(0, 7, 6), rowsOf(1, 8, 7, piece)}, "names document 5"},
		{"no document", []any{term, rowsOf(0, 7, 6, packonline.Piece{Length: 1})}, "names document 0"},
		{"too many tokens", []any{term, rowsOf(0, 5, 3, piece, packonline.Piece{Doc: 5, Length: 1})}, "9 tokens of 8"},
		{"another number of rows", []any{term, &plan.Step{Bucket: 8, Cursor: plan.PositionAfter(5),
			LowWatermark: plan.PositionBefore(3)}},
			"as no step of the run has"},
		{"no rows of another length", []any{term, &plan.Step{Bucket: 16, Cursor: plan.PositionAfter(5),
			LowWatermark: plan.PositionBefore(3)}},
			"as no step of the run has"},
		{"rows of another length", []any{term, &plan.Step{Bucket: 16, Rows: make([][]packonline.Piece, 2)}},
			"as no step of the run has"},
		{"tokens with a loss", []any{term, &plan.Step{Bucket: 8, Rows: make([][]packonline.Piece, 2),
			SourceLossTokens: []int64{0}}}, "counts the tokens with a loss of 1 sources"},
		{"a note", []any{term, planrecord.Foreign{Position: 2}}, "none of the run's daemons wrote it"},
		{"a note before a term", []any{planrecord.Foreign{Position: 2}}, "none of the run's daemons wrote it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := header.Validator()
			for i, r := range tt.records {
				var err error
				switch r := r.(type) {
				case *plan.Step:
					err = o.CheckStep(r)
				case planrecord.Entry:
					err = o.CheckEntry(r)
				}
				switch {
				case i < len(tt.records)-1 || tt.wrong == "":
					if err != nil {
						t.Fatalf("record %d, %+v: %v", i, r, err)
					}
				case err == nil || !strings.Contains(err.Error(), tt.wrong):
					t.Errorf("%+v: %v, want %s", r, err, tt.wrong)
				}
			}
		})
	}
}

// A run with shares of tokens with a loss counts them in all steps, of its sources only.
func TestValidator_TokensWithLoss(t *testing.T) {
	c := plantest.Config("concat")
	c.Packing.Buckets, c.Steps.Rows, c.Mix.Share = []int{8}, 2, mixture.ShareLossTokens
	for sources, want := range map[int]bool{0: false, 1: true, 2: false} {
		o := plantest.Header(c).Validator()
		if err := o.CheckEntry(planrecord.Term{Daemon: "d"}); err != nil {
			t.Fatal(err)
		}
		s := rowsOf(0, 5, 3)
		if sources > 0 {
			s.SourceLossTokens = make([]int64, sources)
		}
		if err := o.CheckStep(s); (err == nil) != want {
			t.Errorf("%d sources: %v", sources, err)
		}
	}
}

// resize returns a change of a job's world size.
func resize(step uint64) planrecord.Resize {
	return planrecord.Resize{Job: "a", WorldSize: planrecord.WorldSize{Step: step, Ranks: 2}}
}
