package planner_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/filter"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// filterConfig returns a configuration whose documents have the value lang.
func filterConfig(where, ofSource string) runconfig.Config {
	c := plantest.Config("bfd")
	c.Documents.Meta = map[string]string{"lang": runconfig.MetaString}
	c.Documents.Where = where
	c.Sources = map[string]mixture.Source{plantest.Source: {Weight: 1, Epochs: 1, Where: ofSource}}
	return c
}

// filterArrival returns a document of 1 to 9 tokens. Every third one is in English, every third one has no language.
func filterArrival(sequence uint64) plan.Arrival {
	a := plan.Arrival{Sequence: sequence, Length: int(sequence%9) + 1, ID: sequence,
		Attributes: &filter.Attributes{ID: fmt.Sprint(sequence), Bytes: int(sequence)}}
	if lang := []any{"en", "de", nil}[sequence%3]; lang != nil {
		a.Attributes.Meta = []any{lang}
	}
	return a
}

// documentsOf returns the sequences of the documents in steps.
func documentsOf(steps []plan.Step) map[uint64]bool {
	out := map[uint64]bool{}
	for _, s := range steps {
		for _, row := range s.Rows {
			for _, x := range row {
				out[plan.RefSequence(x.Doc)] = true
			}
		}
	}
	return out
}

// planFiltered plans documents [from, to] and returns the steps. It restores the planner from its state after each
// document.
func planFiltered(t *testing.T, h planrecord.Header, a *planner.Applier, from, to uint64) (steps []plan.Step) {
	t.Helper()
	take := func(r planner.Ready) error { steps = append(steps, r.Steps...); return nil }
	for i := from; i <= to; i++ {
		if err := a.ApplyPending(take); err != nil {
			t.Fatal(err)
		}
		ready, err := a.AddDocument(filterArrival(i))
		if err != nil {
			t.Fatal(err)
		}
		_ = take(ready)
		next, err := planner.New(h)
		if err != nil {
			t.Fatal(err)
		}
		state := a.Planner.AppendState(nil)
		if err := next.RestoreState(state); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		if !slices.Equal(next.AppendState(nil), state) {
			t.Fatalf("document %d: the restored state differs", i)
		}
		a.Planner = next
	}
	return steps
}

// A filter selects documents from the start, and a control replaces it at its arrival. Both last over restores.
func TestPlanner_Filters(t *testing.T) {
	h := plantest.Header(filterConfig(`meta.lang == "en"`, `tokens != 4`))
	a, err := planner.NewApplier(h)
	if err != nil {
		t.Fatal(err)
	}
	want := func(i uint64) bool {
		switch {
		case i <= 100:
			return i%3 == 0 && i%9 != 3
		case i <= 200: // the control for the source
			return i%3 == 0 && i > 150
		}
		return i > 150 // that for all documents
	}
	steps := planFiltered(t, h, a, 1, 100)
	a.Record(planrecord.Filter{Arrival: 100, Source: plantest.Source, Where: `bytes > 150`})
	steps = append(steps, planFiltered(t, h, a, 101, 200)...)
	a.Record(planrecord.Filter{Arrival: 200})
	steps = append(steps, planFiltered(t, h, a, 201, 300)...)
	steps = append(steps, a.Planner.Seal()...)
	got := documentsOf(steps)
	rejected := int64(0)
	for i := uint64(1); i <= 300; i++ {
		if got[i] != want(i) {
			t.Errorf("document %d is in a step: %v", i, got[i])
		}
		if !want(i) {
			rejected++
		}
	}
	counts, _ := a.Planner.Counts()
	if n := counts.Skipped.Count(plan.SkipFiltered); n != rejected || counts.Skipped.Total() != n ||
		a.Planner.SourceCounts()[0].Skipped.Count(plan.SkipFiltered) != n {
		t.Errorf("%d documents are rejected, want %d", n, rejected)
	}
	for source, want := range map[string]string{"": "", plantest.Source: `bytes > 150`} {
		if where, err := a.Planner.Filters.Expression(source); where != want || err != nil {
			t.Errorf("the filter of %q is %q, %v", source, where, err)
		}
	}
}

// A control with an impossible filter is an error of the plan, and changes nothing.
func TestPlanner_RefusesImpossibleFilters(t *testing.T) {
	h := plantest.Header(filterConfig(`tokens > 1`, ""))
	for _, c := range []planrecord.Filter{{Source: "x", Where: "true"}, {Where: "meta.x == 1"}, {Where: "tokens"}} {
		v := h.Validator()
		v.HasTerm = true
		if err := v.CheckEntry(c); err == nil {
			t.Errorf("the validator accepts %s", c)
		}
		a, err := planner.NewApplier(h)
		if err != nil {
			t.Fatal(err)
		}
		a.Record(c)
		if err := a.ApplyPending(func(planner.Ready) error { return nil }); err == nil {
			t.Errorf("the planner accepts %s", c)
		}
		if where, _ := a.Planner.Filters.Expression(""); where != "tokens > 1" {
			t.Errorf("%s has set %q", c, where)
		}
	}
	c := h.Config
	c.Documents.Where, c.Sources[plantest.Source] = "meta.language == 1", mixture.Source{Weight: 1, Epochs: 1, Where: "1"}
	var fields []string
	for _, e := range c.Validate() {
		fields = append(fields, e.Field+": "+e.Want)
	}
	if all := strings.Join(fields, "\n"); len(fields) != 2 || !strings.Contains(all, "documents.where: an expression") ||
		!strings.Contains(all, "column 5") || !strings.Contains(all, "sources.docs.where: an expression") {
		t.Errorf("the invalid fields are %q", fields)
	}
}

// A fork keeps a filter that a control has set, unless its configuration has another filter than the parent's.
func TestPlanner_ForkInheritsFilters(t *testing.T) {
	h := plantest.Header(filterConfig(`tokens > 1`, `tokens > 2`))
	for name, tt := range map[string]struct {
		run, source string
		want        map[string]string
	}{
		"same":   {`tokens > 1`, `tokens > 2`, map[string]string{"": "tokens > 5", plantest.Source: "tokens > 6"}},
		"run":    {``, `tokens > 2`, map[string]string{"": "", plantest.Source: "tokens > 6"}},
		"source": {`tokens > 1`, `tokens > 3`, map[string]string{"": "tokens > 5", plantest.Source: "tokens > 3"}},
	} {
		a, err := planner.NewApplier(h)
		if err != nil {
			t.Fatal(err)
		}
		a.Record(planrecord.Filter{Where: "tokens > 5"})
		a.Record(planrecord.Filter{Source: plantest.Source, Where: "tokens > 6"})
		planFiltered(t, h, a, 1, 20)
		c := filterConfig(tt.run, tt.source)
		c.Documents.Meta["a"] = runconfig.MetaInt64 // another index of lang
		p, err := a.Planner.Fork(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		forked := planrecord.Header{Run: "f", Config: c}
		forked.Sources, forked.Parent, forked.State = p.ForkState(h, 0)
		if p, err = planner.New(forked); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for source := range tt.want {
			got[source], _ = p.Filters.Expression(source)
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: the filters are %q, want %q", name, got, tt.want)
		}
	}
}

// Without filters, and with a filter that matches every document, plans and states are equal but for the counts.
func TestPlanner_FilterThatMatchesAllChangesNothing(t *testing.T) {
	var all [2][]plan.Step
	for i, where := range []string{"", "tokens > 0"} {
		h := plantest.Header(filterConfig(where, ""))
		a, err := planner.NewApplier(h)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = append(planFiltered(t, h, a, 1, 200), a.Planner.Seal()...)
	}
	if !reflect.DeepEqual(all[0], all[1]) {
		t.Error("the plans differ")
	}
}

// BenchmarkPlanner_Filter compares the planner with and without filters in one process, with the input of
// BenchmarkPlanner. The documents are those that a reader delivers: all of them have attributes.
func BenchmarkPlanner_Filter(b *testing.B) {
	for _, x := range []struct{ name, where string }{{"none", ""}, {"tokens", `tokens >= 1`},
		{"meta", `tokens >= 1 && meta.lang in ["de", "en"] && meta.quality > 0.5`},
		{"matches", `path.matches("[.](py|go)$")`}, {"regexp", `path.matches("^[a-z]+/[a-z]+/[0-9]+[.]py$")`}} {
		b.Run(x.name, func(b *testing.B) {
			c := plantest.Config("bfd")
			c.Packing.Buckets, c.Packing.Pool, c.Packing.MaxAge = []int{2048}, 4096, 16384
			c.Shuffle.Window, c.Steps.Rows, c.Documents.Dedupe = 1024, 64, 100_000
			c.Documents.Meta = map[string]string{"lang": runconfig.MetaString, "quality": runconfig.MetaFloat64}
			c.Documents.Where = x.where
			p, err := planner.New(plantest.Header(c))
			if err != nil {
				b.Fatal(err)
			}
			lengths, attributes := plantest.Lengths(1, 1<<16), make([]filter.Attributes, 1<<12)
			for i := range attributes {
				attributes[i] = filter.Attributes{ID: fmt.Sprint(i), Path: fmt.Sprintf("src/main/%d.py", i), Bytes: i,
					Meta: []any{"en", 0.75}}
			}
			b.ResetTimer()
			for i := range b.N {
				if _, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: 60 * lengths[i&(1<<16-1)],
					ID: uint64(i + 1), Attributes: &attributes[i&(1<<12-1)]}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
}
