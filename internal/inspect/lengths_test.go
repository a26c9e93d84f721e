package inspect

import "testing"

// For more lengths than are held, the quantiles are those of a sample, and the extremes are still those of all.
func TestLengthSample_QuantilesOfManyLengths(t *testing.T) {
	s := &lengthSample{}
	if s.quantiles() != (Lengths{}) {
		t.Error("of nothing")
	}
	const n = 5 * maxSamples / 2
	for i := range n {
		s.add(i + 1)
	}
	if len(s.lengths) >= maxSamples || s.stride != 4 {
		t.Errorf("holds %d, each %d-th", len(s.lengths), s.stride)
	}
	l := s.quantiles()
	near := func(got int, share float64) bool {
		want := share * n
		return float64(got) > want-100 && float64(got) < want+100
	}
	if l.Shortest != 1 || l.Longest != n || !near(l.P10, 0.1) || !near(l.Median, 0.5) || !near(l.P90, 0.9) ||
		!near(l.P99, 0.99) {
		t.Errorf("of %d: %+v", n, l)
	}
}
