package planner_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// sealed returns a run whose sources have the given numbers of documents. seals has the arrival after which the seal
// of each source is recorded. If the run wants a document that the source does not have before that, the source is
// sealed then.
func sealed(t *rapid.T, c runconfig.Config, sources []plan.SourceBegin, documents, seals []int,
	order []int) *sourcesRun {
	b := newSourcesRun(t, c, sources)
	b.settle(t)
	seal := func(i int) {
		b.applier.Record(planrecord.SealSource{Arrival: b.applier.Planner.Clock(), Source: i, Last: sources[i].Start - 1 +
			uint64(documents[i])})
		b.settle(t)
	}
	open := func(i int) bool {
		return !b.applier.Ended && !b.applier.Planner.Mixture().Status()[i].Sealed
	}
	for n := 0; !b.applier.Ended; n++ {
		for _, i := range order {
			if open(i) && seals[i] <= n {
				seal(i)
			}
		}
		if b.applier.Ended {
			break
		}
		source, sequence, ok := b.applier.Planner.NextDocument()
		switch {
		case !ok: // sources without a weight are not sealed yet
			for _, i := range order {
				if open(i) {
					seal(i)
				}
			}
		case open(source) && sequence >= sources[source].Start+uint64(documents[source]):
			seal(source)
		default:
			b.next(t)
		}
	}
	return b
}

// The time at which the end of a source is recorded has no effect on the steps or on their source positions. This is
// true for all sources, in any order and with any delay.
func TestPlanner_TimeOfSealChangesNoStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, sources := drawSources(t)
		documents, early, late := make([]int, len(sources)), make([]int, len(sources)), make([]int, len(sources))
		names := map[string]float64{}
		for i := range sources {
			sources[i].Sealed, sources[i].Last = false, 0
			documents[i] = rapid.IntRange(0, 60).Draw(t, "documents")
			late[i] = rapid.IntRange(0, 200).Draw(t, "seal")
			names[sources[i].Name] = float64(i)
		}
		if rapid.Bool().Draw(t, "schedule") && len(sources) > 1 {
			x := mixture.Point{Tokens: 400, Ramp: mixture.Tokens(rapid.IntRange(0, 600).Draw(t, "ramp")), Weights: names}
			c.Mix.Schedule = []mixture.Point{x}
		}
		if rapid.Bool().Draw(t, "no weight") && len(sources) > 1 {
			s := c.Sources["s1"]
			s.Weight = 0
			c.Sources["s1"] = s
		}
		sealMomentChangesNothing(t, c, sources, documents, early, late)
	})
}

// A source that gets its weight from the schedule once all other sources have ended has no documents. Its share is
// never the target of a step.
func TestPlanner_TimeOfSealOfEmptySource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := plantest.Configs(rapid.SampledFrom(packonline.Methods()).Draw(t, "method")).Draw(t, "configuration")
		c.Sources = map[string]mixture.Source{"s0": {Weight: 1, Epochs: 1}, "s1": {Weight: 0, Epochs: 1}}
		c.Mix = mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll,
			Schedule: []mixture.Point{{Tokens: 400, Weights: map[string]float64{"s0": 0, "s1": 1}}}}
		if len(c.Validate()) > 0 {
			t.Skip()
		}
		documents := []int{rapid.IntRange(1, 5).Draw(t, "documents"), 0}
		sealMomentChangesNothing(t, c, []plan.SourceBegin{{Name: "s0", Start: 1}, {Name: "s1", Start: 1}}, documents,
			[]int{0, 0}, []int{0, 10})
	})
}

// sealMomentChangesNothing fails if the time of the seals changes the steps.
func sealMomentChangesNothing(t *rapid.T, c runconfig.Config, sources []plan.SourceBegin, documents, early,
	late []int) {
	order := make([]int, len(sources))
	for i := range order {
		order[i] = i
	}
	want := sealed(t, c, sources, documents, early, order)
	have := sealed(t, c, sources, documents, late, rapid.Permutation(slices.Clone(order)).Draw(t, "order"))
	if !reflect.DeepEqual(want.taken, have.taken) {
		t.Fatalf("documents are taken in another order: %v, %v", want.taken, have.taken)
	}
	if !reflect.DeepEqual(want.steps, have.steps) {
		for i := range want.steps {
			if i >= len(have.steps) || !reflect.DeepEqual(want.steps[i], have.steps[i]) {
				t.Fatalf("step %d of %d differs: %+v\n%+v", i, len(want.steps), want.steps[i],
					have.steps[min(i, len(have.steps)-1)])
			}
		}
		t.Fatal(fmt.Sprint(len(want.steps), " steps, ", len(have.steps)))
	}
}
