package plan_test

import (
	"slices"
	"testing"

	"loaderd/loader/plan"
)

func TestNewLossRuns_Normalizes(t *testing.T) {
	for _, tt := range []struct{ lengths, want []int32 }{
		{nil, nil}, {[]int32{0, 0}, nil}, {[]int32{7}, nil}, {[]int32{3, 0, 4}, nil},
		{[]int32{0, 5}, []int32{0, 5}}, {[]int32{0, 0, 0, 5}, []int32{0, 5}}, {[]int32{2, 3, 0, 4}, []int32{2, 7}},
		{[]int32{1, 2, 3, 0, 4}, []int32{1, 2, 7}}, {[]int32{1, 2, 0, 0, 3}, []int32{1, 2, 3}},
		{[]int32{0, 2, 0, 1, 5, 0}, []int32{0, 3, 5}},
	} {
		if got := plan.NewLossRuns(tt.lengths); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.lengths, got, tt.want)
		}
	}
}
