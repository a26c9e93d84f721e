package plan_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// A fork of a run whose messages hold several documents plans every token that its parent's steps do not have, and no other; loss and documents stay apart.
func TestForkOfMessages(t *testing.T) {
	checkMethods(t, func(t *rapid.T, c plan.Config) {
		c.Documents.Batches, c.Steps.Last, c.Packing.Extra, c.Packing.RepeatLoss = true, plan.LastPad, 0, packonline.LossOnce
		if c.Packing.Method == "splice" {
			c.Packing.Splice.Fill = "exact"
		}
		arrivals := drawArrivals(t, true)
		again := func(ref uint64) []plan.Part { return arrivals[ref-1].Documents() }
		parent := newPlanner(t, c)
		var steps []plan.Step
		for _, a := range arrivals {
			more, err := parent.Add(a)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, more...)
		}
		at := rapid.IntRange(0, len(steps)).Draw(t, "step")
		used := plan.NewInheritance(1)
		for i := at - 1; i >= 0; i-- {
			if i == at-1 {
				used.Floor, used.Cursor = steps[i].Floor, steps[i].Cursor
			}
			used.Use(&steps[i])
		}
		next := plantest.Configs(rapid.SampledFrom(packonline.Methods()).Draw(t, "method")).Draw(t, "fork")
		next.Documents, next.Steps.Last, next.Packing.Extra, next.Packing.RepeatLoss = c.Documents, plan.LastPad, 0, packonline.LossOnce
		next.Packing.Splice.Fill = "exact"
		h := plan.Header{Config: next, Parent: used.Parent(plan.Header{}, uint64(at))}
		h.Start = max(1, h.Parent.Floor-min(h.Parent.Floor, uint64(c.Documents.Dedupe)))
		fork, err := h.NewPlanner()
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Clone(steps[:at])
		for _, a := range arrivals[h.Start-1:] {
			more, err := fork.Add(a)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, more...)
		}
		all = append(all, fork.Seal()...)
		apart(t, all, again)
		_, one := parent.Counts()
		_, two := fork.Counts()
		if one.Dropped+two.Dropped > 0 { // by methods that cut a document short
			return
		}
		labels, _ := labelled(t, all, func(ref uint64) plan.Runs { return lossOf(arrivals[ref-1]) }, nil)
		for ref, tokens := range usedTokens(arrivals, c.Documents.Dedupe) {
			comes(t, labels, ref, func(at int) int {
				if tokens[at] {
					return 1
				}
				return 0
			}, len(tokens), lossOf(arrivals[ref-1]))
		}
		if len(labels) > 0 {
			t.Fatalf("labels of no document: %v", labels)
		}
	})
}
