package main

import (
	"fmt"
	"math"
	"testing"
)

func TestCut_AtomsOfDocuments(t *testing.T) {
	if have := fmt.Sprint(cut([]int32{3, 5, 1, 8, 2}, 4)); have != "[{0 1} {1 1} {2 3} {3 3} {3 4}]" {
		t.Errorf("atoms of 4 are of documents %s", have)
	}
}

// TestMeasure_SmallOrders checks the figures of small orders that can be counted by hand.
func TestMeasure_SmallOrders(t *testing.T) {
	atoms := []span{{0, 1}, {1, 1}, {2, 3}, {3, 3}, {3, 4}}
	for _, x := range []struct {
		order []int32
		step  int
		want  mixed
	}{
		{[]int32{0, 1, 2, 3, 4}, 5, mixed{apart: 1. / 5, neighbours: 3. / 4, sharing: 1}},
		{[]int32{0, 1, 2, 3, 4}, 3, mixed{apart: 1. / 5, neighbours: 3. / 4, sharing: 4. / 5}},
		{[]int32{4, 1, 2, 3, 0}, 2, mixed{displacement: 8. / 5 / 5, most: 4. / 5, apart: (3 + 1 + 1 + 3) / 4. / 5,
			neighbours: 1. / 4, sharing: 2. / 5}},
		{[]int32{4, 1, 2, 0, 3}, 5, mixed{displacement: 8. / 5 / 5, most: 4. / 5, apart: (2 + 1 + 2 + 4) / 4. / 5,
			sharing: 1}},
	} {
		have := measure(x.order, atoms, x.step)
		for name, v := range map[string][2]float64{"displacement": {have.displacement, x.want.displacement},
			"most":  {have.most, x.want.most},
			"apart": {have.apart, x.want.apart}, "neighbours": {have.neighbours, x.want.neighbours},
			"sharing": {have.sharing, x.want.sharing}} {
			if math.Abs(v[0]-v[1]) > 1e-9 {
				t.Errorf("%v in steps of %d: %s is %v, want %v", x.order, x.step, name, v[0], v[1])
			}
		}
	}
}

// TestReorder_Displacement checks that a global shuffle displaces by a third on average, and a window by less than the
// bound on the wait.
func TestReorder_Displacement(t *testing.T) {
	const n = 20_000
	atoms := make([]span, n)
	for i := range atoms {
		atoms[i] = span{int32(i), int32(i)}
	}
	if m := measure(reorder(n, everything), atoms, 1); math.Abs(m.displacement-1./3) > 0.01 ||
		math.Abs(m.apart-1./3) > 0.01 {
		t.Errorf("%+v", m)
	}
	if m := measure(reorder(n, 100), atoms, 1); m.most > 400./n || m.displacement < 60./n || m.displacement > 90./n ||
		math.Abs(m.apart-100./n) > 5./n {
		t.Errorf("%+v", m)
	}
	if m := measure(reorder(n, 0), atoms, 1); m.displacement != 0 {
		t.Errorf("%+v", m)
	}
}
