package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

// sourceSchema is the schema of one source, without its packing, which has the fields of the run's packing.
var sourceSchema = sync.OnceValue(func() *schema {
	s := newSchema(reflect.TypeFor[mixture.Source]())
	delete(s.byPath, packingSection) // a section in the configuration, but a pointer in the struct
	s.sections[packingSection] = true
	return s
})

const packingSection = "packing"

// splitSources separates the settings of sources from other settings.
func splitSources(settings []setting) (others, ofSources []setting) {
	for _, x := range settings {
		if x.path == sourcesSection || strings.HasPrefix(x.path, sourcesSection+".") {
			ofSources = append(ofSources, x)
		} else {
			others = append(others, x)
		}
	}
	return others, ofSources
}

// defaultSource returns a source without settings.
func defaultSource() mixture.Source {
	return mixture.Source{Weight: 1, Epochs: 1, Block: mixture.DefaultBlock}
}

// applySources decodes the settings of sources. A source's packing overrides that of the run.
func (c *Config) applySources(settings []setting) (problems Problems) {
	bySource := map[string][]setting{}
	for _, x := range settings {
		_, below, _ := strings.Cut(x.path, ".")
		name, rest, _ := strings.Cut(below, ".")
		switch m, isMap := x.value.(map[string]any); {
		case x.path == sourcesSection && (x.value == nil || isMap && len(m) == 0), rest == "" && below != "" &&
			(x.value == nil || isMap && len(m) == 0):
			if below != "" { // a source without settings
				bySource[name] = append(bySource[name], setting{})
			}
			continue
		case rest == "":
			problems = append(problems, Problem{x.path, x.value,
				"names of sources, each with settings below it: web: {weight: 0.6}", x.origin})
			continue
		}
		bySource[name] = append(bySource[name], setting{rest, x.value, x.origin, x.text})
	}
	c.Plan.Sources, c.Stream.Sources = map[string]mixture.Source{}, nil
	if len(bySource) == 0 {
		c.Plan.Sources[c.Stream.OnlySource()] = onlySource()
		return problems
	}
	for _, name := range slices.Sorted(maps.Keys(bySource)) {
		source, bad := c.source(name, bySource[name])
		problems = append(problems, bad...)
		c.Plan.Sources[name] = source
		if name != c.Stream.OnlySource() {
			c.Stream.Sources = append(c.Stream.Sources, name)
		}
	}
	return problems
}

// onlySource returns the source of a run without configured sources. It reads the document stream in order.
func onlySource() mixture.Source { return mixture.Source{Weight: 1, Epochs: 1} }

// HasOnlySource reports whether the run reads the document stream only, without configured sources.
func (c Config) HasOnlySource() bool {
	_, only := c.Plan.Sources[c.Stream.OnlySource()]
	return only
}

// source decodes the settings of one source. Their paths are relative to its name.
func (c *Config) source(name string, settings []setting) (mixture.Source, Problems) {
	var problems Problems
	source := defaultSource()
	own := Config{Plan: runconfig.Config{Packing: c.Plan.Packing}}
	own.Plan.Packing.Buckets = slices.Clone(own.Plan.Packing.Buckets)
	packs := false
	for _, x := range settings {
		s, to := sourceSchema(), reflect.ValueOf(&source).Elem()
		if strings.HasPrefix(x.path, packingSection+".") {
			s, to, packs = configSchema(), reflect.ValueOf(&own).Elem(), true
		}
		f := s.byPath[x.path]
		path := strings.Join([]string{sourcesSection, name, x.path}, ".")
		switch {
		case x.path == "":
		case x.path == fromField:
			if patterns, err := decodePatterns(x); err != nil {
				problems = append(problems, Problem{path, x.value, "a list of addresses of objects", x.origin})
			} else {
				if c.Pull.Sources == nil {
					c.Pull.Sources = map[string][]string{}
				}
				c.Pull.Sources[name] = patterns
			}
		case f == nil && s.sections[x.path]:
			problems = append(problems, Problem{path, x.value, "a section with settings below it", x.origin})
		case f == nil:
			problems = append(problems, Problem{path, x.value, describeUnknownSource(s, x.path), x.origin})
		default:
			if err := f.set(to.FieldByIndex(f.index), x.value, x.text); err != nil {
				problems = append(problems, Problem{path, x.value, f.describeValues(), x.origin})
			}
		}
	}
	if !packs {
		return source, problems
	}
	source.Packing = &own.Plan.Packing
	if source.Attention == "" || source.Attention == runconfig.AttentionAuto {
		source.Attention = runconfig.MethodAttention(source.Packing.Method)
	}
	return source, problems
}

// decodePatterns decodes a list of texts.
func decodePatterns(x setting) (patterns []string, err error) {
	f := configSchema().byPath["pull.from"]
	err = f.set(reflect.ValueOf(&patterns).Elem(), x.value, x.text)
	return patterns, err
}

// describeUnknownSource describes the valid settings for a path that is no setting of a source, with a suggestion if
// one is similar.
func describeUnknownSource(s *schema, path string) string {
	known := slices.Sorted(maps.Keys(s.byPath))
	if near, ok := suggest(path, known); ok {
		return fmt.Sprintf("a known setting of a source: did you mean %s?", near)
	}
	return "a known setting of a source: one of " +
		strings.Join(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(sourceSchema().byPath)), fromField))),
			", ") + ", or of its packing"
}
