package loader_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// filtersOfModel are the filters that runs can have. One of them rejects every document.
var filtersOfModel = map[string]func(source string, tokens int) bool{
	"":                            func(string, int) bool { return true },
	"tokens % 4 != 1":             func(_ string, tokens int) bool { return tokens%4 != 1 },
	`source != "b" || tokens > 5`: func(source string, tokens int) bool { return source != "b" || tokens > 5 },
	"tokens > 1000000000":         func(string, int) bool { return false },
}

func drawFilter(rt *rapid.T) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(filtersOfModel))).Draw(rt, "where")
}

// matches reports whether the filters in effect for the next document match one of a source.
func (m *machine) matches(r *reference, source, tokens int) bool {
	info := m.infos()[source]
	for _, name := range []string{"", info.Name} {
		where, known := r.filters[name]
		if !known {
			where = info.Config.Where // the source was added later
		}
		for _, c := range r.known {
			if f, ok := c.(planrecord.Filter); ok && f.Source == name && f.Arrival <= r.applier.Planner.Clock() {
				where = f.Where
			}
		}
		if !filtersOfModel[where](info.Name, tokens) {
			return false
		}
	}
	return true
}

// filter replaces a filter.
func (m *machine) filter(rt *rapid.T) {
	if m.blind() {
		return
	}
	m.follow(rt)
	before := len(m.ref.known)
	q := state.FilterRequest{Source: rapid.SampledFrom(append(slices.Sorted(maps.Keys(m.present())), "")).Draw(rt, "of"),
		Where: drawFilter(rt)}
	step, err := m.run.Filter(m.t.Context(), q)
	if reason(err) == fault.InvalidTicket && m.sealed(rt) || m.died(rt, err) {
		return
	}
	m.follow(rt)
	for i, c := range slices.Backward(m.ref.known) {
		f, ok := c.(planrecord.Filter)
		if !ok || f.Source != q.Source {
			continue
		}
		if f.Where != q.Where {
			rt.Fatalf("the last filter of %q is %s, want %q", q.Source, f, q.Where)
		}
		if i >= before {
			m.answers[i] = step
		}
		return
	}
	if m.ref.filters[q.Source] != q.Where && m.ref.filters[q.Source] != "" {
		rt.Fatalf("%+v is not among %+v", q, m.ref.known)
	}
}
