package loader_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// sourcesOfModel are the streams that runs can read.
var sourcesOfModel = []string{"a", "b", "c", "d"}

// drawMixture draws the sources of a run at its start.
func drawMixture(rt *rapid.T, c *runconfig.Config, processes int) {
	names := sourcesOfModel[:rapid.IntRange(1, 3).Draw(rt, "sources")]
	c.Sources = map[string]mixture.Source{}
	for _, name := range names {
		c.Sources[name] = drawSource(rt, *c)
	}
	if first := c.Sources[names[0]]; first.Weight == 0 {
		first.Weight = 1
		c.Sources[names[0]] = first
	}
	c.Mix.OnDry = rapid.SampledFrom([]string{mixture.DryWait, mixture.DryWait, mixture.DryShare}).Draw(rt, "dry")
	c.Mix.End = rapid.SampledFrom([]string{mixture.EndAll, mixture.EndAll, mixture.EndFirst}).Draw(rt, "end")
	c.Mix.DryAfter = time.Millisecond
	if processes > 1 {
		c.Mix.DryAfter = time.Second
	}
	drawSchedule(rt, c, names)
	if bad := c.Validate(); len(bad) > 0 {
		rt.Fatalf("the configuration was to be good: %v", bad)
	}
}

func drawSchedule(rt *rapid.T, c *runconfig.Config, names []string) {
	endless := func(name string) bool { return c.Sources[name].Epochs == mixture.Forever }
	tokens := mixture.Tokens(0)
	for range rapid.IntRange(0, 2).Draw(rt, "points") {
		p := mixture.Point{Tokens: tokens + mixture.Tokens(rapid.IntRange(0, 500).Draw(rt, "tokens")),
			Ramp: mixture.Tokens(rapid.SampledFrom([]int{0, 10, 400}).Draw(rt, "ramp")), Weights: drawWeights(rt, names)}
		if after := rapid.SampledFrom(names).Draw(rt, "source"); rapid.Bool().Draw(rt, "after the source") &&
			!endless(after) && c.Mix.End == mixture.EndAll {
			p.Tokens, p.After = 0, after
		}
		tokens = max(tokens, p.Tokens+p.Ramp)
		c.Mix.Schedule = append(c.Mix.Schedule, p)
	}
}

func drawSource(rt *rapid.T, c runconfig.Config) mixture.Source {
	s := mixture.Source{Weight: rapid.SampledFrom([]float64{1, 0, 3, 0.2}).Draw(rt, "weight"),
		Epochs: rapid.SampledFrom([]mixture.Epochs{1, 1, 2, mixture.Forever}).Draw(rt, "epochs"),
		Block:  rapid.IntRange(0, 3).Draw(rt, "block")}
	if rapid.IntRange(0, 3).Draw(rt, "chooses documents") == 0 {
		s.MinTokens, s.MaxTokens = rapid.IntRange(0, 6).Draw(rt, "min_tokens"),
			rapid.SampledFrom([]int{0, 40}).Draw(rt, "max_tokens")
		s.Where = drawFilter(rt)
		s.Split = rapid.SampledFrom([]mixture.Split{{}, {Of: 4, Take: []int{0, 2}}, {Of: 4, Take: []int{3, 3}}}).Draw(rt,
			"split")
	}
	if rapid.IntRange(0, 3).Draw(rt, "packs by itself") == 0 {
		method := rapid.SampledFrom(packonline.Methods()).Draw(rt, "its method")
		own := configs(method).Draw(rt, "its packing").Packing
		own.Buckets = c.Packing.Buckets[:1]
		if packonline.IsMultiBucket(method) {
			own.Buckets = c.Packing.Buckets
		}
		if s.Packing = &own; len(own.Validate()) > 0 {
			s.Packing = nil
		} else {
			s.Attention = runconfig.MethodAttention(method)
		}
		c.Sources = map[string]mixture.Source{"": s}
		if len(c.ValidateSchedule()) > 0 { // a phase does not have its row lengths
			s.Packing, s.Attention = nil, ""
		}
	}
	return s
}

// drawWeights draws weights that are not all 0.
func drawWeights(rt *rapid.T, names []string) map[string]float64 {
	out := map[string]float64{}
	for _, name := range names {
		out[name] = rapid.SampledFrom([]float64{1, 0, 0.3, 4}).Draw(rt, "weight of "+name)
	}
	if last := names[len(names)-1]; !slices.ContainsFunc(names, func(name string) bool { return out[name] > 0 }) {
		out[last] = 1
	}
	return out
}

// strictShelf is the streams of a run, without purged documents.
type strictShelf struct {
	docs          shelf
	lowWatermarks func(name string) runLowWatermarks
}

func (s strictShelf) Open(_ context.Context, name string, _ mixture.Source) (backend.Stream, error) {
	return backend.Stream{Documents: strictDocs{s.docs[name]}, LowWatermarks: s.lowWatermarks(name)}, nil
}

// allShelf is the streams including purged documents.
type allShelf shelf

func (s allShelf) Open(_ context.Context, name string, _ mixture.Source) (backend.Stream, error) {
	return backend.Stream{Documents: allDocs{s[name]}}, nil
}

// mixed reports whether the run has more than one source, or does not read it once in stream order.
func (m *machine) mixed() bool {
	return len(m.fixture.config.Sources) > 1 || len(m.infos()) > 1 ||
		!reflect.DeepEqual(m.fixture.config.Sources[plainSource], plain()[plainSource])
}

// plainSource is the only source of a run that reads one stream in order.
const plainSource = "a"

func plain() map[string]mixture.Source {
	return map[string]mixture.Source{plainSource: {Weight: 1, Epochs: 1}}
}

// lowWatermarksOf returns the current run's low watermark in a source.
func (m *machine) lowWatermarksOf(name string) runLowWatermarks {
	return runLowWatermarks{m.docs[name], m.lowWatermarks[name], m.name}
}

// infos returns the run's sources according to its log, including removed ones.
func (m *machine) infos() []plan.SourceInfo {
	if m.ref == nil {
		return nil
	}
	infos := m.ref.header.Infos()
	if p := m.ref.header.Parent; p != nil {
		for i, x := range p.Sources {
			infos[i].Sealed, infos[i].Last = x.Sealed, x.Last
		}
	}
	for _, c := range m.ref.known {
		if mix, ok := c.(planrecord.Mix); ok {
			infos = append(infos, mix.Infos()...)
		}
	}
	return infos
}

// source returns the stream of a source.
func (m *machine) source(number int) *memDocs {
	return m.docs[m.infos()[number].Name]
}

// document returns the document of a reference in a plan.
func (m *machine) document(ref uint64) document.Document {
	docs := m.source(plan.RefSource(ref))
	docs.mu.Lock()
	defer docs.mu.Unlock()
	return docs.docs[plan.RefSequence(ref)-1]
}

// leaves reports whether a source filters out document i of a message.
func (m *machine) leaves(r *reference, source int, sequence uint64, i int, x plan.Part) bool {
	c := m.infos()[source].Config
	place := sequence + uint64(i-x.SplitIndex)<<48
	return !c.Split.Includes(x.ID, place) || x.Length < c.MinTokens || c.MaxTokens > 0 && x.Length > c.MaxTokens ||
		!m.matches(r, source, x.Length)
}

// done counts how often each used document arrived before a low watermark.
func (m *machine) done(lowWatermark uint64) map[member]int {
	out := map[member]int{}
	for i, comes := range m.ref.arrivals {
		for _, doc := range comes {
			if uint64(i+1) < lowWatermark {
				out[doc]++
			}
		}
	}
	return out
}

// present returns the names of the run's current sources, and whether each is sealed.
func (m *machine) present() map[string]bool {
	out := map[string]bool{}
	infos := m.infos()
	for _, x := range infos {
		out[x.Name] = x.Sealed
	}
	for _, c := range m.ref.known {
		switch c := c.(type) {
		case planrecord.SealSource:
			out[infos[c.Source].Name] = true
		case planrecord.Mix:
			for _, name := range c.Remove {
				delete(out, name)
			}
		}
	}
	return out
}

// mix changes the mixture.
func (m *machine) mix(rt *rapid.T) {
	if m.blind() {
		return
	}
	m.follow(rt)
	there, was := m.present(), m.infos()
	names := slices.Sorted(maps.Keys(there))
	absent := slices.DeleteFunc(slices.Clone(sourcesOfModel), func(name string) bool {
		return slices.ContainsFunc(was, func(x plan.SourceInfo) bool { return x.Name == name })
	})
	var change mixture.Change
	switch what := rapid.SampledFrom([]string{"weights", "add", "remove", "nonsense"}).Draw(rt, "what"); {
	case what == "nonsense":
		m.nonsense(rt, names)
		return
	case what == "add" && len(absent) > 0:
		name := rapid.SampledFrom(absent).Draw(rt, "added")
		names = append(names, name)
		change.Add = map[string]mixture.Source{name: drawSource(rt, m.fixture.config)}
	case what == "remove" && len(names) > 1:
		i := rapid.IntRange(0, len(names)-1).Draw(rt, "removed")
		change.Remove = []string{names[i]}
		names = slices.Delete(names, i, i+1)
	}
	change.Weights = drawWeights(rt, names)
	step, err := changeMix(m.t, m.run, change, "")
	if reason(err) == fault.InvalidTicket && (m.sealed(rt) || m.lacksBuckets(change)) || m.died(rt, err) {
		return
	}
	m.follow(rt)
	for i, c := range slices.Backward(m.ref.known) {
		if mix, ok := c.(planrecord.Mix); ok && reflect.DeepEqual(mix.Change, change) {
			m.answers[i] = step
			return
		}
	}
	rt.Fatalf("%+v is not among %+v", change, m.ref.known)
}

// lacksBuckets reports whether a control has changed the row lengths, and a source with its own packing is added.
func (m *machine) lacksBuckets(change mixture.Change) bool {
	schedule := m.run.Info().Schedule
	return schedule.ChangesBuckets() && slices.ContainsFunc(slices.Collect(maps.Values(change.Add)),
		func(s mixture.Source) bool { return s.Packing != nil })
}

// nonsense requests an invalid change.
func (m *machine) nonsense(rt *rapid.T, names []string) {
	change := mixture.Change{Weights: drawWeights(rt, names)}
	switch rapid.SampledFrom([]string{"unknown", "zero", "negative", "there"}).Draw(rt, "nonsense") {
	case "unknown":
		change.Weights["z"] = 1
	case "zero":
		for name := range change.Weights {
			change.Weights[name] = 0
		}
	case "negative":
		change.Weights[names[0]] = -1
	default:
		change.Add = map[string]mixture.Source{names[0]: {Weight: 1, Epochs: 1}}
	}
	if _, err := changeMix(m.t, m.run, change, ""); reason(err) != fault.InvalidTicket && !m.died(rt, err) {
		rt.Fatalf("the change %+v: %v", change, err)
	}
}

// answered checks that changes took effect with the steps in their responses.
func (m *machine) answered(rt *rapid.T) {
	for i, step := range m.answers {
		if took, does := m.ref.took[i]; does && took != step {
			rt.Fatalf("%s took effect before step %d, it was answered with %d", m.ref.known[i], took, step)
		}
	}
}

// sealSource seals a source.
func (m *machine) sealSource(rt *rapid.T) {
	if m.blind() {
		return
	}
	m.follow(rt)
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(m.present()))).Draw(rt, "sealed")
	last, err := m.run.SealSource(m.t.Context(), name, "")
	if reason(err) == fault.InvalidTicket && m.sealed(rt) || m.died(rt, err) {
		return
	}
	m.follow(rt)
	for i, x := range m.infos() {
		if x.Name != name || x.Sealed && x.Last == last {
			continue
		}
		if !slices.ContainsFunc(m.ref.known, func(c planrecord.Control) bool {
			seal, ok := c.(planrecord.SealSource)
			return ok && seal.Source == i && seal.Last == last
		}) {
			rt.Fatalf("the end of %s behind document %d is not among %+v", name, last, m.ref.known)
		}
	}
}

// allSealed checks that every source is sealed or has ended.
func (m *machine) allSealed(rt *rapid.T) {
	for name, sealed := range m.present() {
		if _, ended := m.possible(rt); !sealed && !ended {
			rt.Fatalf("the run is sealed and source %s is not: %+v", name, m.ref.known)
		}
	}
}

// endStream seals the stream of a source, which all of its runs detect.
func (m *machine) endStream(rt *rapid.T) {
	if rapid.IntRange(0, 2).Draw(rt, "really") > 0 {
		return
	}
	docs := m.docs[rapid.SampledFrom(sourcesOfModel).Draw(rt, "stream")]
	docs.mu.Lock()
	defer docs.mu.Unlock()
	docs.sealed = true
}
