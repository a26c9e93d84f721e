package demo

import (
	"strings"
	"testing"
)

func TestRanks_DetectDifferingSteps(t *testing.T) {
	one := stepShare{Rank: 0, Step: 7, Bucket: 2048, Rows: make([]digest, 32), Tokens: 9}
	other := func(edit func(*stepShare)) []stepShare {
		s := one
		s.Rank = 1
		edit(&s)
		return []stepShare{one, s}
	}
	end := stepShare{End: true}
	for _, test := range []struct {
		name string
		got  []stepShare
		want string // part of the error, empty for none
	}{
		{"alike", other(func(s *stepShare) { s.Tokens = 1 }), ""},
		{"all at the end", []stepShare{end, end}, ""},
		{"one at the end", other(func(s *stepShare) {
			*s = stepShare{Rank: 1, End: true}
		}), "rank 0 has ended: false, rank 1: true"},
		{"a step skipped", other(func(s *stepShare) { s.Step = 8 }), "rank 1 got step 8, want step 7"},
		{"another bucket", other(func(s *stepShare) { s.Bucket = 1024 }), "rows of 2048 tokens, rank 1 of 1024"},
		{"a row lost", other(func(s *stepShare) { s.Rows = s.Rows[1:] }), "rank 1 of 2 got 31 of the 64 rows"},
		{"a rank missing", []stepShare{one}, "rank 0 of 1 got 32 of the 64 rows"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkAgreement(test.got, 7, 64)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A step that is read again must have the bytes of the first reading, whichever rank reads a row.
func TestRecord_ComparesSecondReading(t *testing.T) {
	step := func(rows ...digest) []stepShare {
		half := len(rows) / 2
		return []stepShare{{Rank: 0, Bucket: 8, Rows: rows[:half], Tokens: 5},
			{Rank: 1, Bucket: 8, Rows: rows[half:], Tokens: 6}}
	}
	one := func(s stepShare) []stepShare { return []stepShare{s} }
	for _, test := range []struct {
		name string
		got  []stepShare
		step uint64
		want string // part of the error, empty for none
	}{
		{"the same", step("a", "b", "c", "d"), 0, ""},
		{"the same by one rank", one(stepShare{Bucket: 8, Rows: []digest{"a", "b", "c", "d"}}), 0, ""},
		{"another row", step("a", "b", "x", "d"), 0, "row 2 of step 0 was read again with other bytes"},
		{"rows in another order", step("b", "a", "c", "d"), 0, "row 0 of step 0"},
		{"another row length", one(stepShare{Bucket: 16, Rows: make([]digest, 4)}), 0,
			"read again with rows of 16 tokens, first with 8"},
		{"an early end", one(stepShare{End: true}), 0, "the run ended before step 0, and before step 1 when"},
		{"the end", one(stepShare{End: true}), 1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := record{rowsPerStep: map[int]int{8: 4, 16: 4}}
			if err := r.add(step("a", "b", "c", "d"), 0); err != nil {
				t.Fatal(err)
			}
			err := r.add(test.got, test.step)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			wantBytes := int64(0)
			if err == nil && test.step == 0 {
				wantBytes = 4 * 8 * bytesPerToken
			}
			if steps, tokens := r.readSteps(); steps != 1 || tokens != 11 || r.comparedBytes() != wantBytes {
				t.Errorf("%d steps with %d tokens, %d bytes compared, want 1, 11, %d", steps, tokens, r.comparedBytes(),
					wantBytes)
			}
		})
	}
}
