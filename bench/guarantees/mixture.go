package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"loaderd/internal/lengths"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// mixed is a run of several sources whose documents are functions of source and sequence.
type mixed struct {
	config runconfig.Config
	begins []plan.SourceBegin // by source number
	length func(source int, sequence uint64) int
}

// mixedConfig returns the default configuration of a run that reads these sources.
func mixedConfig(sources map[string]mixture.Source) runconfig.Config {
	c := planConfig(2048)
	c.Sources = sources
	c.Mix = mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}
	return c
}

// newMixed returns a run of live sources.
func newMixed(sources map[string]mixture.Source, length func(source int, sequence uint64) int) *mixed {
	m := &mixed{config: mixedConfig(sources), length: length}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		m.begins = append(m.begins, plan.SourceBegin{Name: name, Start: 1})
	}
	return m
}

// begin returns the run's applier.
func (m *mixed) begin() (*planner.Applier, error) {
	return planner.NewApplier(planrecord.Header{Config: m.config, Sources: m.begins})
}

// next returns the document that the run takes next.
func (m *mixed) next(p *planner.Planner) (a plan.Arrival, ok bool) {
	source, sequence, ok := p.NextDocument()
	if ok {
		a = plan.Arrival{Source: source, Sequence: sequence, Length: m.length(source, sequence)}
	}
	return a, ok
}

// take plans documents until the given tokens are taken or no document is left.
func (m *mixed) take(ctx context.Context, a *planner.Applier, tokens int64, each func(plan.Step)) error {
	for i := 0; a.UsedTokens < tokens; i++ {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		d, ok := m.next(a.Planner)
		if !ok {
			return nil
		}
		ready, err := a.AddDocument(d)
		if err != nil {
			return err
		}
		for _, s := range ready.Steps {
			each(s)
		}
	}
	return nil
}

// end seals all sources after the taken documents.
func (m *mixed) end(a *planner.Applier, each func(plan.Step)) error {
	for i, s := range a.Planner.Mixture().Status() {
		if !s.Sealed {
			a.Record(planrecord.SealSource{Arrival: a.Planner.Clock(), Source: i, Last: m.begins[i].Start + s.Taken - 1})
		}
	}
	return a.ApplyPending(func(r planner.Ready) error {
		for _, s := range r.Steps {
			each(s)
		}
		return nil
	})
}

// bySource returns the tokens of a step by source.
func bySource(s plan.Step, sources int) []int64 {
	out := make([]int64, sources)
	for _, row := range s.Rows {
		for _, x := range row {
			out[plan.RefSource(x.Doc)] += int64(x.Length)
		}
	}
	return out
}

// equalSources returns n sources of the same weight.
func equalSources(n int) map[string]mixture.Source {
	out := map[string]mixture.Source{}
	for i := range n {
		out[fmt.Sprintf("s%03d", i)] = mixture.Source{Weight: 1, Epochs: 1}
	}
	return out
}

// webLengths returns the document lengths of all sources in tables about speed. All use one list, so that memory
// access costs every planner the same.
func webLengths() func(source int, sequence uint64) int {
	const size = 1 << 15
	list := lengths.LogNormal(size, 1)
	return func(source int, sequence uint64) int { return int(list[(sequence+uint64(source)*977)%size]) }
}
