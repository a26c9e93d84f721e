package planner_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// changingShares returns a run of two sources whose shares change every 257 tokens, with steps of 8 rows.
func changingShares(seed uint64) planrecord.Header {
	c := plantest.Config("bucket")
	c.Seed, c.Packing.Buckets, c.Packing.Pool, c.Shuffle.Window = seed, []int{16, 32}, 5, 7
	c.Steps.Rows, c.Documents.Dedupe = 8, 0
	for k := range 20 {
		c.Mix.Schedule = append(c.Mix.Schedule, mixture.Point{Tokens: mixture.Tokens(257 * (k + 1)),
			Weights: map[string]float64{"a": float64(1 + 8*(k%2)), "b": float64(9 - 8*(k%2))}})
	}
	c.Sources = map[string]mixture.Source{"a": {Weight: 1, Epochs: 1}, "b": {Weight: 1, Epochs: 1}}
	return planrecord.Header{Config: c, Sources: []plan.SourceBegin{{Name: "a", Start: 1}, {Name: "b", Start: 1}}}
}

// addNext adds the given number of documents, and returns the steps that they complete.
func addNext(t *testing.T, a *planner.Applier, documents int) (steps []plan.Step) {
	for range documents {
		source, sequence, _ := a.Planner.NextDocument()
		ready, err := a.AddDocument(mixedDocument(source, sequence))
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, ready.Steps...)
	}
	return steps
}

// applyPending applies all controls, and returns the steps that they complete.
func applyPending(t *testing.T, a *planner.Applier) (steps []plan.Step) {
	if err := a.ApplyPending(func(r planner.Ready) error {
		steps = append(steps, slices.Clone(r.Steps)...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return steps
}

// A fork at a step that a change of the schedule completes makes the same steps as its parent, also if the shares have
// changed before.
func TestFork_AtStepOfScheduleControl(t *testing.T) {
	const documents = 48
	forks := 0
	for seed := range uint64(200) {
		h := changingShares(seed)
		run := func(fork bool, step uint64) (a *planner.Applier, before uint64, steps []plan.Step) {
			a, err := planner.NewApplier(h)
			if err != nil {
				t.Fatal(err)
			}
			if fork {
				a.Planner.PrepareFork(step)
			}
			addNext(t, a, documents)
			before = a.Planner.Next()
			a.Record(planrecord.Schedule{Arrival: documents, Phases: []runconfig.Phase{{Rows: 2}}})
			return a, before, applyPending(t, a)
		}
		parent, first, steps := run(false, 0)
		want := append(steps, addNext(t, parent, 20)...)
		for step := first + 1; step < first+uint64(len(steps)); step++ {
			prepared, _, _ := run(true, step)
			forked, err := prepared.Planner.Fork(h.Config, nil)
			if err != nil {
				t.Fatal(err)
			}
			child := planrecord.Header{Config: h.Config, Run: "child", ID: strings.Repeat("0", 32)}
			child.Sources, child.Parent, child.State = forked.ForkState(h, step)
			a, err := planner.NewApplier(child)
			if err != nil {
				t.Fatal(err)
			}
			have := append(applyPending(t, a), addNext(t, a, 20)...)
			same := func(a, b plan.Step) bool { return reflect.DeepEqual(a.Rows, b.Rows) }
			if !slices.EqualFunc(have, want[step-first:], same) {
				t.Fatalf("seed %d: the fork at step %d has other steps than its parent: %v, want %v", seed, step, have,
					want[step-first:])
			}
			forks++
		}
	}
	if forks < 100 {
		t.Errorf("%d forks", forks)
	}
}
