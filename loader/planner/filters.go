package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"loaderd/loader/filter"
	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
)

// Filters are the filters of a planner: those of the configuration, and those that controls have set in their place.
type Filters struct {
	documents runconfig.Documents
	sources   *sourceSet
	// expressions by the name of their source, empty for the filter of the run; never changed, but replaced
	changed map[string]string
	changes int            // number of calls of set
	run     *filter.Filter // as compiled last
}

// effective returns the expression in effect for a source, or the run's for an empty name.
func (f *Filters) effective(source, configured string) string {
	if where, ok := f.changed[source]; ok {
		return where
	}
	return configured
}

// selection compiles the selection of a source. before is the source's filter as compiled last.
func (f *Filters) selection(name string, c mixture.Source, before *filter.Filter) (s plan.Selection, err error) {
	compileChanged := func(before *filter.Filter, expression string) (*filter.Filter, error) {
		if before.Text() == expression {
			return before, nil
		}
		return filter.Compile(expression, f.documents.Meta)
	}
	if f.run, err = compileChanged(f.run, f.RunExpression()); err != nil {
		return s, fmt.Errorf("documents.where: %w", err)
	}
	s = plan.Selection{Source: name, Config: c, Filters: plan.Filters{Run: f.run}}
	if s.Filters.Source, err = compileChanged(before, f.effective(name, c.Where)); err != nil {
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

func (f *Filters) state() filterState {
	s := filterState{Changed: f.changed}
	for i := range f.sources.states {
		s.Rejected = append(s.Rejected, f.sources.states[i].counts.Skipped.Count(plan.SkipFiltered))
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

// appendState writes the state of filters, nothing if it is the initial one.
func (f *Filters) appendState(b []byte) []byte {
	s := f.state()
	if len(s.Changed) == 0 && !slices.ContainsFunc(s.Rejected, func(n int64) bool { return n > 0 }) {
		return b
	}
	return codec.AppendString(b, string(s.encode()))
}

// restoreState reads what appendState wrote. It adds the rejected documents to all.
func (f *Filters) restoreState(r *codec.Cursor, all *plan.Skips) {
	all.Add(plan.SkipFiltered, -all.Count(plan.SkipFiltered))
	if r.Err != nil || len(r.Buf) == 0 {
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
	if !bytes.Equal(s.encode(), encoded) || len(s.Rejected) != len(f.sources.states) {
		r.Fail(errors.New("filters: their state is written in another way than a daemon writes it"))
		return
	}
	for i, n := range s.Rejected {
		if n < 0 || n > f.sources.states[i].counts.Arrived {
			r.Fail(fmt.Errorf("filters: %d documents of source %d are rejected", n, i))
			return
		}
		f.sources.states[i].counts.Skipped.Add(plan.SkipFiltered, n)
		all.Add(plan.SkipFiltered, n)
	}
	f.changed = s.Changed
	if err := f.compile(); err != nil {
		r.Fail(err)
	}
}

// compile compiles the selections of all sources again.
func (f *Filters) compile() error {
	mix := f.sources.mix
	for i := range f.sources.states {
		s, err := f.selection(mix.Name(i), mix.SourceConfig(i), f.sources.states[i].selection.Filters.Source)
		if err != nil {
			return err
		}
		f.sources.states[i].selection = s
	}
	return nil
}

// Expression returns the expression in effect for a source, or of the run for an empty name.
func (f *Filters) Expression(source string) (where string, err error) {
	for i, s := range f.sources.mix.Status() {
		if s.Name == source && !s.Removed {
			return f.effective(source, f.sources.mix.SourceConfig(i).Where), nil
		}
	}
	if source != "" {
		return "", fmt.Errorf("%s is no source of the run", source)
	}
	return f.RunExpression(), nil
}

// RunExpression returns the expression in effect for the documents of all sources.
func (f *Filters) RunExpression() string { return f.effective("", f.documents.Where) }

// set replaces the filter of a source, or of the run for an empty name.
func (f *Filters) set(source, where string) error {
	if _, err := f.Expression(source); err != nil {
		return err
	}
	before := f.changed
	f.changed = maps.Clone(before)
	if f.changed == nil {
		f.changed = map[string]string{}
	}
	f.changed[source] = where
	if err := f.compile(); err != nil {
		f.changed = before
		return err
	}
	f.changes++
	return nil
}

// Changes returns how many controls this planner has applied to its filters.
func (f *Filters) Changes() int { return f.changes }

// Selection returns which documents of a source are used.
func (f *Filters) Selection(source int) *plan.Selection { return &f.sources.states[source].selection }

// Selections returns the selection of each source.
func (f *Filters) Selections() []plan.Selection {
	out := make([]plan.Selection, len(f.sources.states))
	for i := range out {
		out[i] = f.sources.states[i].selection
	}
	return out
}

// inherit keeps the filters that controls have set in the parent of a fork, where the configuration has the same
// filter as the parent's. infos are the parent's sources.
func (f *Filters) inherit(parent *Filters, infos []plan.SourceInfo, config func(source int) mixture.Source) {
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
