package runcmd

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/goldentest"
	"loaderd/loader/mixture"
)

func TestReadWeights_Parses(t *testing.T) {
	have, err := readWeights([]string{"web=0.5", "code=2"})
	if err != nil || !reflect.DeepEqual(have, map[string]float64{"web": .5, "code": 2}) {
		t.Errorf("%v, %v", have, err)
	}
	for _, bad := range [][]string{{"web"}, {"web=much"}, {"=1"}, {"web=1", "web=2"}, {"web=nan"}, {"web=inf"}, {"web=-1"},
		{"web=1e10"}} {
		if _, err := readWeights(bad); err == nil || !strings.HasPrefix(err.Error(), "--set ") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestReadWeights_ErrorGivesRange(t *testing.T) {
	_, err := readWeights([]string{"web=nan"})
	if want := "--set web=nan: weight NaN of source web: want a number from 0 to 1e9"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestReadAdded_Parses(t *testing.T) {
	have, err := readAdded([]string{"web=0.5", "code={weight: 2, epochs: forever, packing: {method: bfd}}"})
	if err != nil || string(have["web"]) != `{"weight":0.5}` ||
		string(have["code"]) != `{"epochs":"forever","packing":{"method":"bfd"},"weight":2}` {
		t.Errorf("%s, %v", have, err)
	}
	for _, bad := range [][]string{{"web"}, {"web=much"}, {"=1"}, {"web=1", "web=2"}, {"web={weight: 1"}, {"web=[1]"},
		{"web=nan"}, {"web=-1"}, {"web={weight: .nan}"}, {"web={weight: .inf, epochs: 2}"}} {
		if _, err := readAdded(bad); err == nil || !strings.HasPrefix(err.Error(), "--add ") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestMixture_GoldenOutput compares the output of mix with golden files.
func TestMixture_GoldenOutput(t *testing.T) {
	lasts := int64(4711)
	for name, m := range map[string]api.MixResponse{
		"changed": {Run: "pretrain", Step: 1234, Target: map[string]float64{"web": .6, "code": .4}},
		"dry":     {Run: "pretrain", Step: 1234, DryRun: true, Target: map[string]float64{"web": 1}},
		"loss": {Run: "pretrain", Step: 1234, Tokens: 123_456_789, RecentSteps: 100, ShareUnit: mixture.ShareLossTokens,
			Sources: []api.MixtureSource{{Name: "chats", Target: 1, Share: 1, Recent: 1, Epochs: 1}}},
		"state": {Run: "pretrain", Step: 1234, Tokens: 123_456_789, RecentSteps: 100, Sources: []api.MixtureSource{
			{Name: "code", Target: .25, Share: .2511, Recent: .249, Epochs: 1, RemainingDocuments: 120_000,
				RemainingSteps: &lasts},
			{Name: "forum", Target: .05, Share: .04, Recent: .06, Epoch: 1, Epochs: mixture.Forever, RemainingDocuments: 12,
				Sealed:  true,
				Endless: true},
			{Name: "math", Target: .1, Epochs: 2, Paused: true}, {Name: "old", Epochs: 1, Removed: true},
			{Name: "web", Target: .6, Epochs: 1, Exhausted: true}}},
	} {
		goldentest.Compare(t, "mix/"+name+".txt", func(w io.Writer) error { return writeMixture(w, m) })
	}
}
