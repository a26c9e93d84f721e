package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"loaderd/loader/filter"
	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
)

// filterSet holds the filters that controls have set in place of those of the configuration.
type filterSet struct {
	documents runconfig.Documents
	// expressions by the name of their source, empty for the filter of the run; never changed, but replaced
	changed map[string]string
	run     *filter.Filter // as compiled last
}

// expression returns the expression in effect for a source, or the run's for an empty name.
func (f *filterSet) expression(source, configured string) string {
	if where, ok := f.changed[source]; ok {
		return where
	}
	return configured
}

// selection compiles the selection of a source. before is the source's filter as compiled last.
func (f *filterSet) selection(name string, c mixture.Source, before *filter.Filter) (s plan.Selection, err error) {
	compile := func(before *filter.Filter, expression string) (*filter.Filter, error) {
		if before.Text() == expression {
			return before, nil
		}
		return filter.Compile(expression, f.documents.Meta)
	}
	if f.run, err = compile(f.run, f.expression("", f.documents.Where)); err != nil {
		return s, fmt.Errorf("documents.where: %w", err)
	}
	s = plan.Selection{Source: name, Config: c, Filters: plan.Filters{Run: f.run}}
	if s.Filters.Source, err = compile(before, f.expression(name, c.Where)); err != nil {
		return s, fmt.Errorf("where of source %s: %w", name, err)
	}
	return s, nil
}

// filterState is the part of a planner's state about filters.
type filterState struct {
	Changed  map[string]string `json:"changed,omitempty"`
	Rejected []int64           `json:"rejected"` // documents by source
}

// maxFilterBytes bounds the encoded filterState in bytes.
const maxFilterBytes = (mixture.MaxSources + 1) * (8*filter.MaxExpression + 128)

func (p *Planner) filterState() filterState {
	s := filterState{Changed: p.filters.changed}
	for i := range p.sources.states {
		s.Rejected = append(s.Rejected, p.sources.states[i].counts.Skipped.Count(plan.SkipFiltered))
	}
	return s
}

func (s filterState) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("plan: marshal filters: %v", err)) // only strings and numbers
	}
	return b
}

// appendFilters writes the state of filters, nothing if it is the initial one.
func (p *Planner) appendFilters(b []byte) []byte {
	if len(p.filters.changed) == 0 && p.counts.Skipped.Count(plan.SkipFiltered) == 0 {
		return b
	}
	return codec.AppendString(b, string(p.filterState().encode()))
}

// restoreFilters reads what appendFilters wrote.
func (p *Planner) restoreFilters(r *codec.Cursor) {
	p.counts.Skipped.Add(plan.SkipFiltered, -p.counts.Skipped.Count(plan.SkipFiltered))
	if len(r.Buf) == 0 {
		return
	}
	encoded := r.Bytes(int(r.BoundedUvarint(maxFilterBytes)))
	if r.Err != nil {
		return
	}
	var s filterState
	if err := json.Unmarshal(encoded, &s); err != nil {
		r.Fail(fmt.Errorf("filters: %w", err))
		return
	}
	if !bytes.Equal(s.encode(), encoded) || len(s.Rejected) != len(p.sources.states) {
		r.Fail(errors.New("filters: their state is written in another way than a daemon writes it"))
		return
	}
	for i, n := range s.Rejected {
		if n < 0 || n > p.sources.states[i].counts.Arrived {
			r.Fail(fmt.Errorf("filters: %d documents of source %d are rejected", n, i))
			return
		}
		p.sources.states[i].counts.Skipped.Add(plan.SkipFiltered, n)
		p.counts.Skipped.Add(plan.SkipFiltered, n)
	}
	p.filters.changed = s.Changed
	if err := p.compileFilters(); err != nil {
		r.Fail(err)
	}
}

// compileFilters compiles the selections of all sources again.
func (p *Planner) compileFilters() error {
	mix := p.sources.mix
	for i := range p.sources.states {
		s, err := p.filters.selection(mix.Name(i), mix.SourceConfig(i), p.sources.states[i].selection.Filters.Source)
		if err != nil {
			return err
		}
		p.sources.states[i].selection = s
	}
	return nil
}

// FilterOf returns the expression in effect for a source, or of the run for an empty name.
func (p *Planner) FilterOf(source string) (where string, err error) {
	for i, s := range p.sources.mix.Status() {
		if s.Name == source && !s.Removed {
			return p.filters.expression(source, p.sources.mix.SourceConfig(i).Where), nil
		}
	}
	if source != "" {
		return "", fmt.Errorf("%s is no source of the run", source)
	}
	return p.filters.expression("", p.config.Documents.Where), nil
}

// setFilter replaces the filter of a source, or of the run for an empty name.
func (p *Planner) setFilter(source, where string) error {
	if _, err := p.FilterOf(source); err != nil {
		return err
	}
	before := p.filters.changed
	p.filters.changed = maps.Clone(before)
	if p.filters.changed == nil {
		p.filters.changed = map[string]string{}
	}
	p.filters.changed[source] = where
	if err := p.compileFilters(); err != nil {
		p.filters.changed = before
		return err
	}
	return nil
}

// Selection returns which documents of a source are used.
func (p *Planner) Selection(source int) *plan.Selection { return &p.sources.states[source].selection }

// Selections returns the selection of each source.
func (p *Planner) Selections() []plan.Selection {
	out := make([]plan.Selection, len(p.sources.states))
	for i := range out {
		out[i] = p.sources.states[i].selection
	}
	return out
}

// inheritFilters keeps the filters that controls have set in the parent of a fork, where the configuration has the same
// filter as the parent's. infos are the parent's sources.
func (f *filterSet) inheritFilters(parent *filterSet, infos []plan.SourceInfo, config func(source int) mixture.Source) {
	keep := func(name string) {
		if where, ok := parent.changed[name]; ok {
			if f.changed == nil {
				f.changed = map[string]string{}
			}
			f.changed[name] = where
		}
	}
	if parent.documents.Where == f.documents.Where {
		keep("")
	}
	for i := range infos {
		if infos[i].Config.Where == config(i).Where {
			keep(infos[i].Name)
		}
	}
}
