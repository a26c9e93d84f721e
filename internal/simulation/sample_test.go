package simulation_test

import (
	"math"
	"slices"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/packonline"
)

// TestHoldback_EveryTwentiethIsFairSample checks the documented property of methods with a holdback: in every twentieth
// of a run of 20 pools, the share of tokens of documents shorter than 2,048 is within 10 % of that of the whole run.
// Without a holdback the deviation is more than 15 %. concat does not reorder documents, so its deviation is the noise
// level.
func TestHoldback_EveryTwentiethIsFairSample(t *testing.T) {
	five := []int{1024, 2048, 4096, 8192, 16384}
	for seed := range uint64(3) {
		in := lengths.LogNormal(81_920, seed+1)
		deviation := func(method string, rows []int, hold int) float64 {
			r, err := simulation.Run(t.Context(), packonline.Config{Method: method, Buckets: rows, Atom: 1, Pool: 4096,
				MaxAge: 16384, Holdback: hold}, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Sample.Below != 2048 {
				t.Fatalf("documents below %d are short", r.Sample.Below)
			}
			return r.Sample.Deviation
		}
		if off := deviation("concat", []int{2048}, 0); off > 0.08 {
			t.Errorf("seed %d, concat: %.3f", seed, off)
		}
		for _, x := range []struct {
			method string
			rows   []int
		}{{"bucket", []int{2048}}, {"bucket", five}, {"bfd", []int{2048}}} {
			with, without := deviation(x.method, x.rows, 100), deviation(x.method, x.rows, 0)
			t.Logf("seed %d, %s %v: %.3f, %.3f without a hold", seed, x.method, x.rows, with, without)
			if with > 0.1 || without < 0.15 {
				t.Errorf("seed %d, %s %v: a twentieth is %.3f off, %.3f without a hold", seed, x.method, x.rows, with, without)
			}
		}
	}
}

// TestSample_CountsTokens compares the shares with those of the rows that concat makes in order.
func TestSample_CountsTokens(t *testing.T) {
	const row, documents = 100, 4_000
	in := make([]int32, documents)
	for i := range in {
		in[i] = 200
		if i < documents/4 || i%4 == 0 {
			in[i] = 50
		}
	}
	r, _ := run(t, packonline.Config{Method: "concat", Buckets: []int{row}}, in)
	s := r.Sample
	if s == nil || s.Below != row || len(s.Shares) != 20 || math.Abs(s.Share-87_500./(87_500+450_000)) > 1e-9 {
		t.Fatalf("%+v", s)
	}
	late := 1. / 13 // 50 of 650 tokens
	if s.Shares[0] != 1 || math.Abs(s.Shares[2]-late) > 0.005 || math.Abs(s.Shares[19]-late) > 0.005 ||
		math.Abs(s.Deviation-(1/s.Share-1)) > 1e-9 {
		t.Errorf("%+v", s)
	}
	if most := slices.Max(s.Shares[2:]); most > late+0.005 {
		t.Errorf("a share of %.3f", most)
	}
	// Runs with fewer rows than twentieths, or without short documents, have no sample.
	for _, in := range [][]int32{{5, 200, 300}, slices.Repeat([]int32{400}, 100), nil} {
		if r, _ := run(t, packonline.Config{Method: "concat", Buckets: []int{row}}, in); r.Sample != nil {
			t.Errorf("%v is a sample: %+v", in, *r.Sample)
		}
	}
	if have := simulation.DefaultShortLength([]int{1024, 2048, 4096}); have != 2048 {
		t.Errorf("documents below %d are short", have)
	}
}
