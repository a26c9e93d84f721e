package simulation_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/lengths"
	"loaderd/internal/simulation"
	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// threeSources returns sources with different lengths; math is read three times.
func threeSources() *simulation.Mixture {
	return &simulation.Mixture{
		Config: mixture.Config{Mix: mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndFirst}, Seed: 5,
			Sources: map[string]mixture.Source{
				"code": {Weight: 3, Epochs: 1, Block: 64, MaxTokens: 9000}, "math": {Weight: 1, Epochs: 3},
				"web": {Weight: 6, Epochs: 1, Split: mixture.Split{Of: 10, Take: []int{0, 8}}}}},
		Lengths: map[string][]int32{"code": lengths.LogNormalOf(6.1, 1.4, 9000, 1),
			"math": lengths.LogNormalOf(4, .8, 8000, 2), "web": lengths.LogNormal(20000, 3)},
	}
}

// TestRunMixture_ValuesPerSourceMatchRows compares all values of a source with those counted from the rows, for every
// method.
func TestRunMixture_ValuesPerSourceMatchRows(t *testing.T) {
	for _, method := range packonline.Methods() {
		if method == "splice" {
			continue // needs documents' content
		}
		t.Run(method, func(t *testing.T) {
			m := threeSources()
			a, err := m.Arrivals(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := packonline.Config{Method: method, Buckets: []int{1024}, Atom: 1, Pool: 500, MaxAge: 4000, Overlap: .3,
				Extra: 20, PaddingThreshold: .02}
			var placed bytes.Buffer
			r, err := simulation.RunMixture(t.Context(), c, a, 1024, a.Placements(&placed))
			if err != nil {
				t.Fatal(err)
			}
			tokens, padding := map[string]int64{}, map[string]float64{}
			for line := range strings.Lines(placed.String()) {
				var length int64
				of := map[string]int64{}
				for i, word := range strings.Fields(line) {
					var document, start, n int64
					if i == 0 {
						fmt.Sscan(word, &length)
						continue
					}
					name, piece, _ := strings.Cut(word, "/")
					if _, err := fmt.Sscanf(piece, "%d:%d:%d", &document, &start, &n); err != nil {
						t.Fatalf("%q: %v", word, err)
					}
					if end := start + n; end > int64(m.Lengths[name][document]) {
						t.Fatalf("%s ends behind its document", word)
					}
					of[name] += n
				}
				sum := int64(0)
				for _, n := range of {
					sum += n
				}
				for name, n := range of {
					tokens[name] += n
					padding[name] += float64(length-sum) * float64(n) / float64(sum)
				}
			}
			var documents, taken, allPadding, allTokens int64
			age, least, most := uint32(0), uint32(math.MaxUint32), uint32(0) // over all documents, and the medians
			for name, s := range r.Sources {
				documents, taken, allPadding, allTokens, age = documents+s.Documents, taken+s.Tokens, allPadding+s.PaddingTokens,
					allTokens+tokens[name], max(age, s.AgeMax)
				least, most = min(least, s.AgeMedian), max(most, s.AgeMedian)
				if math.Abs(float64(s.PaddingTokens)-padding[name]) > float64(r.Sequences) {
					t.Errorf("%s has %d tokens of padding, want %.0f", name, s.PaddingTokens, padding[name])
				}
			}
			if documents != r.Documents || taken != r.Tokens || allPadding != r.PaddingTokens || age != r.AgeMax {
				t.Errorf("%d documents, %d tokens, %d of padding and age %d by source; of the whole %+v", documents, taken,
					allPadding, age, r)
			}
			if r.AgeMedian < least || r.AgeMedian > most {
				t.Errorf("the median age of all is %d, by source from %d to %d", r.AgeMedian, least, most)
			}
			for name, s := range r.Sources {
				if want := float64(tokens[name]) / float64(allTokens); math.Abs(s.Share-want) > 1e-12 ||
					math.Abs(s.Target-s.Share) > .02 {
					t.Errorf("the share of %s is %v, want %v; it is to have %v", name, s.Share, want, s.Target)
				}
				if mean(s.Shares)-s.Share > .01 || mean(s.Targets)-s.Target > 1e-3 || len(s.Shares) != 20 || len(s.Targets) != 20 {
					t.Errorf("%s: twentieths %v and targets %v, in all %v and %v", name, s.Shares, s.Targets, s.Share, s.Target)
				}
			}
		})
	}
}

func mean(values []float64) (m float64) {
	for _, x := range values {
		m += x / float64(len(values))
	}
	return m
}

// Unused documents are counted by reason. Epochs is the number of times that a source was read.
func TestRunMixture_CountsUnusedDocumentsByReason(t *testing.T) {
	m := threeSources()
	a, err := m.Arrivals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulation.RunMixture(t.Context(), packonline.Config{Method: "concat", Buckets: []int{1024}, Atom: 1,
		Pool: 1}, a, 1024, nil)
	if err != nil {
		t.Fatal(err)
	}
	code, maths, web := r.Sources["code"], r.Sources["math"], r.Sources["web"]
	long := int64(0)
	for _, n := range m.Lengths["code"] {
		if n > 9000 {
			long++
		}
	}
	// math is the first source to be used up.
	if maths.Epochs != 3 || maths.Documents != 24000 || maths.LeftOut != (simulation.LeftOut{}) {
		t.Errorf("math: %+v", maths)
	}
	if l := code.LeftOut; l.NotReached == 0 || code.Documents+l.Long+l.NotReached != 9000 || l.Long == 0 ||
		l.Long > long || code.Epochs >= 1 {
		t.Errorf("code: %+v", code)
	}
	if l := web.LeftOut; l.Split == 0 || web.Documents+l.Split+l.NotReached != 20000 ||
		math.Abs(float64(l.Split)/float64(web.Documents+l.Split)-.1) > .02 {
		t.Errorf("web: %+v", web)
	}
}

// The targets of twentieths follow the schedule: one half for the first half of the tokens, then a ramp to all.
func TestRunMixture_TargetsFollowSchedule(t *testing.T) {
	m := &simulation.Mixture{Tokens: 2_000_000,
		Config: mixture.Config{Mix: mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}}, Lengths: map[string][]int32{}}
	m.Config.Sources = map[string]mixture.Source{"a": {Weight: 1, Epochs: mixture.Forever},
		"b": {Weight: 1, Epochs: mixture.Forever}}
	m.Config.Mix.Schedule = []mixture.Point{{Tokens: 1_000_000, Ramp: 1_000_000,
		Weights: map[string]float64{"a": 1, "b": 0}}}
	for name := range m.Config.Sources {
		m.Lengths[name] = slices.Repeat([]int32{100}, 50)
	}
	if !m.Endless() {
		t.Error("two sources for ever have an end")
	}
	a, err := m.Arrivals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulation.RunMixture(t.Context(), packonline.Config{Method: "concat", Buckets: []int{1000}, Atom: 1,
		Pool: 1}, a, 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, have := range r.Sources["a"].Targets {
		want := .5
		if k >= 10 {
			want = .5 + .5*(float64(k-10)+.5)/10
		}
		if math.Abs(have-want) > .005 {
			t.Errorf("twentieth %d is to have %v, want %v", k, have, want)
		}
	}
	if s := r.Sources["a"]; s.Deviation > .005 || math.Abs(s.Share-.625) > .005 || s.Epochs < 200 {
		t.Errorf("%+v", s)
	}
	if names := slices.Sorted(maps.Keys(r.Sources)); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("sources are %v", names)
	}
}
