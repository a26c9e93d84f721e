package planner_test

import (
	"bytes"
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
)

// twoSources returns a planner that has taken the given number of documents of sources a and b in turn.
func twoSources(t *testing.T, documents, lengthA, lengthB int) *planner.Planner {
	c := plantest.Config("concat")
	c.Documents.Dedupe = 0
	c.Sources = map[string]mixture.Source{"a": {Weight: 1, Epochs: 1}, "b": {Weight: 1, Epochs: 1}}
	p, err := planner.New(planrecord.Header{Config: c, Sources: []plan.SourceBegin{{Name: "a", Start: 5},
		{Name: "b", Start: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for range documents {
		source, sequence, _ := p.NextDocument()
		a := plan.Arrival{Source: source, Sequence: sequence, Length: []int{lengthA, lengthB}[source]}
		if _, err := p.Add(a); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// A state is refused if the position of its mixture contradicts the documents that have arrived.
func TestPlanner_RefusesStateWithMixtureElsewhere(t *testing.T) {
	p := twoSources(t, 12, 8, 8)
	state, mix := p.AppendState(nil), p.Mixture().AppendState(nil)
	for name, x := range map[string]struct {
		other *planner.Planner
		want  string
	}{
		"behind":    {twoSources(t, 11, 8, 8), "the mixture is at document 11, the cursor at document 12"},
		"ahead":     {twoSources(t, 13, 8, 8), "the mixture is at document 13, the cursor at document 12"},
		"elsewhere": {twoSources(t, 12, 4, 8), "the mixture has taken 8 documents of source a, but 6 arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := bytes.Replace(state, mix, x.other.Mixture().AppendState(nil), 1)
			err := twoSources(t, 0, 0, 0).RestoreState(damaged)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Fatalf("%v, want %q", err, x.want)
			}
		})
	}
	if err := twoSources(t, 0, 0, 0).RestoreState(state); err != nil {
		t.Fatal(err)
	}
}
