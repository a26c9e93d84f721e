package demo

import (
	"strings"
	"testing"
)

func TestRanks_DetectDifferingSteps(t *testing.T) {
	one := stepShare{rank: 0, step: 7, bucket: 2048, rows: 32, tokens: 9}
	other := func(edit func(*stepShare)) []stepShare {
		s := one
		s.rank = 1
		edit(&s)
		return []stepShare{one, s}
	}
	end := stepShare{end: true}
	for _, test := range []struct {
		name string
		got  []stepShare
		want string // part of the error, empty for none
	}{
		{"alike", other(func(s *stepShare) { s.tokens = 1 }), ""},
		{"all at the end", []stepShare{end, end}, ""},
		{"one at the end", other(func(s *stepShare) {
			*s = stepShare{rank: 1, end: true}
		}), "rank 0 has ended: false, rank 1: true"},
		{"a step skipped", other(func(s *stepShare) { s.step = 8 }), "rank 1 got step 8, want step 7"},
		{"another bucket", other(func(s *stepShare) { s.bucket = 1024 }), "rows of 2048 tokens, rank 1 of 1024"},
		{"a row lost", other(func(s *stepShare) { s.rows = 31 }), "rank 1 of 2 got 31 of the 64 rows"},
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
