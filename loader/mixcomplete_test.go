package loader_test

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"loaderd/loader"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// recordedMixes returns the changes of the mixture in a plan.
func recordedMixes(t *testing.T, l *memLog) (out []planrecord.Mix) {
	t.Helper()
	must(t, l.Scan(t.Context(), 1, func(_ uint64, b []byte) error {
		e, err := planrecord.Decode(b)
		if m, is := e.(planrecord.Mix); is {
			out = append(out, m)
		}
		return err
	}))
	return out
}

func weightsOf(pairs ...any) mixture.Change {
	c := mixture.Change{Weights: map[string]float64{}}
	for i := 0; i < len(pairs); i += 2 {
		c.Weights[pairs[i].(string)] = pairs[i+1].(float64)
	}
	return c
}

// Changes in quick succession keep what the changes before them set, through the leader and through a follower.
func TestMix_CompletesWeightsWhenRecorded(t *testing.T) {
	w, _ := mixedCodeAndWeb(900)
	cluster := newTestCluster()
	runs := make([]*loader.Run, 2)
	for i := range runs {
		runs[i], _ = w.join(t, cluster, fmt.Sprint("daemon", i))
	}
	read(t, runs[0], state.RankID{World: 1}, 0, 1)
	for _, tc := range []struct {
		by     int
		change mixture.Change
		dryRun bool
		want   map[string]float64 // shares
	}{
		{0, weightsOf("code", 1.5), false, map[string]float64{"code": .75, "web": .25}},
		{1, weightsOf("web", .75), false, map[string]float64{"code": .5, "web": .5}},
		{0, weightsOf("code", .1), true, map[string]float64{"code": 1. / 6, "web": 5. / 6}},
		{1, weightsOf("code", .1), true, map[string]float64{"code": 1. / 6, "web": 5. / 6}},
		{0, weightsOf("web", 1.5), false, map[string]float64{"code": .25, "web": .75}},
		{1, mixture.Change{Remove: []string{"code"}}, false, map[string]float64{"web": 1}},
	} {
		got, err := runs[tc.by].Mix(t.Context(), state.MixRequest{Change: tc.change, DryRun: tc.dryRun})
		must(t, err)
		sum := 0.
		for _, x := range got.Weights {
			sum += x
		}
		for name := range got.Weights {
			got.Weights[name] /= sum
		}
		near := maps.EqualFunc(got.Weights, tc.want, func(a, b float64) bool { return a-b < 1e-5 && b-a < 1e-5 })
		if !near || got.Duplicate {
			t.Errorf("%+v: shares are %v, want %v", tc, got.Weights, tc.want)
		}
	}
	if all := recordedMixes(t, w.plan); len(all) != 4 {
		t.Errorf("the plan has %d changes, want 4: a dry run records nothing", len(all))
	}
}

// A repeated request gets the change in the plan as its response: from the leader that recorded it, from the next
// leader, from a restarted daemon, and after other changes.
func TestMix_RepeatedRequestIsRecordedOnce(t *testing.T) {
	w, _ := mixedCodeAndWeb(900)
	w.options.CheckpointSteps = 1
	cluster := newTestCluster()
	runs := make([]*loader.Run, 2)
	for i := range runs {
		runs[i], _ = w.join(t, cluster, fmt.Sprint("daemon", i))
	}
	read(t, runs[0], state.RankID{World: 1}, 0, 3)
	first := state.MixRequest{Change: weightsOf("code", 3.), Request: "one"}
	want, err := runs[1].Mix(t.Context(), first)
	must(t, err)
	_, err = runs[0].Mix(t.Context(), state.MixRequest{Change: weightsOf("web", 3.), Request: "two"})
	must(t, err)
	repeated := func(run *loader.Run, what string) {
		t.Helper()
		if got, err := run.Mix(t.Context(), first); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	repeated(runs[0], "the same leader")
	cluster.depose(lossReported)
	repeated(runs[1], "another leader")
	read(t, runs[0], state.RankID{World: 1}, 3, 20)
	cluster.depose(lossReported)
	repeated(runs[0], "a third term, some steps later")
	_, err = runs[0].Seal(t.Context())
	must(t, err)
	read(t, runs[0], state.RankID{World: 1}, 23, 0)
	repeated(runs[1], "the run has ended")
	if all := recordedMixes(t, w.plan); len(all) != 2 {
		t.Errorf("the plan has %d changes, want 2", len(all))
	}
}
