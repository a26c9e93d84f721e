package main

import (
	"context"
	"maps"
	"slices"

	"loaderd/internal/config"
	"loaderd/internal/lengths"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// fiveBuckets are the row lengths of Beyond Fixed Length.
var fiveBuckets = []int{1024, 2048, 4096, 8192, 16384}

// paperStep is the tokens of a step in Beyond Fixed Length: 48, 24, 12, 6 or 3 rows by bucket for each of 8 ranks.
const paperStep = 8 * 48 * 1024

// planConfig returns the default configuration, for tokenized documents.
func planConfig(buckets ...int) runconfig.Config {
	c := config.Default().Plan
	c.Packing.Buckets = buckets
	return c
}

// fiveConfig returns a configuration of five buckets and steps of equal tokens.
func fiveConfig() runconfig.Config {
	c := planConfig(fiveBuckets...)
	c.Steps.Tokens = paperStep
	return c
}

// arrivals returns n documents with an id each.
func arrivals(n int) []plan.Arrival {
	out := make([]plan.Arrival, n)
	for i, length := range lengths.LogNormal(n, 1) {
		out[i] = plan.Arrival{Sequence: uint64(i + 1), ID: uint64(i+1) * 0x9e3779b97f4a7c15, Length: int(length)}
	}
	return out
}

// newPlanner returns the planner of a run that begins with the first documents of its sources.
func newPlanner(c runconfig.Config) (*planner.Planner, error) {
	h := planrecord.Header{Config: c}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		h.Sources = append(h.Sources, plan.SourceBegin{Name: name, Start: 1})
	}
	return planner.New(h)
}

// planSteps adds documents to a new planner and calls each with every document and its steps.
func planSteps(ctx context.Context, c runconfig.Config, in []plan.Arrival, each func(p *planner.Planner, a plan.Arrival,
	steps []plan.Step)) (*planner.Planner, error) {
	p, err := newPlanner(c)
	if err != nil {
		return nil, err
	}
	for _, a := range in {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		steps, err := p.Add(a)
		if err != nil {
			return nil, err
		}
		each(p, a, steps)
	}
	return p, nil
}
