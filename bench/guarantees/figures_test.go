package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/packonline"
)

func TestQuantile_Examples(t *testing.T) {
	in := make([]int, 1000)
	for i := range in {
		in[i] = 1000 - i
	}
	for q, want := range map[float64]int{0: 1, .5: 500, .99: 990, .999: 999, 1: 1000} {
		if got := quantile(slices.Clone(in), q); got != want {
			t.Errorf("quantile %v of 1 ... 1000 is %d, want %d", q, got, want)
		}
	}
	if got := quantile([]int{}, .5); got != 0 {
		t.Errorf("quantile of nothing is %d", got)
	}
}

// A random order is near the expectation of runsOf; an alternating order and a sorted order are far from it.
func TestRunsOf_DistinguishesOrders(t *testing.T) {
	random := make([]int, 10_000)
	for i := range random {
		random[i] = max(0, rand.New(rand.NewPCG(1, uint64(i))).IntN(6)-3) // 4 of 6 are 0
	}
	sorted, turns := slices.Clone(random), make([]int, len(random))
	slices.Sort(sorted)
	for i := range turns {
		turns[i] = i % 3
	}
	for _, x := range []struct {
		name        string
		order       []int
		least, most float64 // standard deviations
	}{{"random", random, -3, 3}, {"sorted", sorted, math.Inf(-1), -50}, {"by turns", turns, 50, math.Inf(1)}} {
		r := runsOf(x.order, 3)
		if z := (float64(r.runs) - r.expected) / r.deviation; z < x.least || z > x.most {
			t.Errorf("%s: %d runs where %.0f are expected: %.1f standard deviations", x.name, r.runs, r.expected, z)
		}
	}
	if r := runsOf([]int{0, 0, 0, 1, 0, 0, 1, 1}, 2); r.runs != 4 || r.longest != 3 || math.Abs(r.same-4.0/7) > 1e-9 ||
		r.gap != 2 {
		t.Errorf("%+v", r)
	}
}

func TestServed_ChiSquare(t *testing.T) {
	s := served{order: []int{0, 0, 0, 1}, packed: [][]float64{{0, 0}, {10, 10}, {20, 20}, {30, 30}, {40, 40}}}
	if x := s.chiSquare(0, 4); math.Abs(x-1) > 1e-9 { // 3 and 1, 2 and 2 expected
		t.Errorf("chi-square is %v", x)
	}
	if mean, beyond := s.windows(4); math.Abs(mean-1) > 1e-9 || beyond != 0 {
		t.Errorf("of one window %v, %v beyond", mean, beyond)
	}
}

func TestExcess_Mean(t *testing.T) {
	row := func(lengths ...int32) (r []packonline.Piece) {
		for _, n := range lengths {
			r = append(r, packonline.Piece{Length: n})
		}
		return r
	}
	var e excess
	e.observe([][]packonline.Piece{row(3), row(1, 1), row(2), row(1)}, 2) // 9 + 2 against 4 + 1; the mean is 8
	if math.Abs(e.mean()-3.0/8) > 1e-9 || math.Abs(e.boundMean()-2.0/8) > 1e-9 {
		t.Errorf("%v over the mean, at least %v", e.mean(), e.boundMean())
	}
}

func TestPlanned_DeviationInEveryWindow(t *testing.T) {
	s := planned{steps: stepShares{{50, 50}, {50, 50}, {60, 40}, {20, 80}}, buckets: []int32{1, 1, 1, 2},
		targets: [][]float64{{50, 50}, {50, 50}, {50, 50}, {30, 70}}}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if off := s.off(2); !slices.EqualFunc(off, []float64{0, .05, 0}, near) {
		t.Errorf("off by %v", off)
	}
	if x := s.excess(2); !near(x, .05) { // 10 of the tokens of two steps
		t.Errorf("a step exceeds its shares by %v", x)
	}
}

func TestStepShares_ChiSquareCountsRows(t *testing.T) {
	// 48 and 16 of 64 rows; 32 and 32 expected
	if x := (stepShares{{48, 16}}).chiSquare(); math.Abs(x-16) > 1e-9 {
		t.Errorf("chi-square is %v", x)
	}
}

// order returns every document once, and a block's documents in one group.
func TestOrder_HasEveryDocumentOnce(t *testing.T) {
	o := order(1000, 8, 64)
	sorted := slices.Sorted(slices.Values(o))
	for i, x := range sorted {
		if x != uint64(i+1) {
			t.Fatalf("document %d comes as number %d", x, i)
		}
	}
	place := make([]int, 1000)
	for k, x := range o {
		place[x-1] = k / 64
	}
	for i := range 125 {
		if place[8*i] != place[8*i+7] {
			t.Fatalf("block %d is in groups %d and %d", i, place[8*i], place[8*i+7])
		}
	}
}
