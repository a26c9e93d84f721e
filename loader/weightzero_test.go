package loader_test

import (
	"strings"
	"testing"

	"loaderd/loader/mixture"
	"loaderd/loader/state"
)

// A run whose sources are all sealed ends when no source with a current or scheduled weight has documents left.
func TestRun_EndsWithoutDocumentsOfWeightZero(t *testing.T) {
	weights := func(a, b float64) map[string]float64 { return map[string]float64{"a": a, "b": b} }
	for _, tc := range []struct {
		name     string
		weights  map[string]float64
		schedule []mixture.Point
		change   map[string]float64 // after the first step
		reads    [2]bool            // whether all documents of a and b are read
	}{
		{"from the beginning", weights(0, 1), nil, nil, [2]bool{false, true}},
		{"by a change", weights(1, 1), nil, weights(0, 1), [2]bool{false, true}},
		{"by the schedule", weights(1, 1), []mixture.Point{{Tokens: 100, Weights: weights(0, 1)}}, nil, [2]bool{false, true}},
		{"weight by the schedule", weights(0, 1), []mixture.Point{{Tokens: 1e6, Ramp: 1e6, Weights: weights(1, 1)}}, nil,
			[2]bool{true, true}},
		{"weight by the ramp under way", weights(0, 1), []mixture.Point{{Tokens: 1, Ramp: 1e6, Weights: weights(1, 0)}}, nil,
			[2]bool{true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := config("bfd")
			c.Sources, c.Mix.Schedule = sources(tc.weights), tc.schedule
			w, s := mixed(c, "a", "b")
			w.options.Ahead = 1
			all := [2]int{}
			for i, name := range []string{"a", "b"} {
				s[name].lengths(someLengths(uint64(3+i), 120)...)
				for _, d := range s[name].docs {
					all[i] += d.Len()
				}
			}
			run, _ := w.start(t)
			got := read(t, run, state.RankID{World: 1}, 0, 1)
			if tc.change != nil {
				_, err := changeMix(t, run, mixture.Change{Weights: tc.change}, "")
				must(t, err)
			}
			_, err := run.Seal(t.Context())
			must(t, err)
			got = append(got, read(t, run, state.RankID{World: 1}, 1, 0)...)
			ended := "all of its sources are used up"
			if !tc.reads[0] {
				ended = "those with documents left have no weight: a"
			}
			if _, err := changeMix(t, run, mixture.Change{Weights: weights(1, 1)}, ""); err == nil ||
				!strings.Contains(err.Error(), ended) {
				t.Errorf("a change behind the end: %v, want %q", err, ended)
			}
			for i, n := range [2]int{shares(got)[0], shares(got)[1]} {
				if (n == all[i]) != tc.reads[i] {
					t.Errorf("source %d: %d of %d tokens, want all: %v", i, n, all[i], tc.reads[i])
				}
			}
		})
	}
}
