package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"loaderd/loader/mixture"
)

//go:embed default.yaml
var defaultYAML string

// field is one leaf of Config.
type field struct {
	path  string // as in YAML: stream.max_bytes
	index []int  // for reflect's FieldByIndex
	kind  reflect.Type
	size  bool // a number of bytes, which may have a unit
}

// sourcesSection is the section whose subsections have user-defined names.
const sourcesSection = "sources"

func (f *field) value(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(f.index)
}

// schema describes all settings of a struct.
type schema struct {
	fields   []*field // in the order of Config
	byPath   map[string]*field
	sections map[string]bool
	defaults Config
}

// configSchema is built from Config and default.yaml. Both are compiled in and must agree, which a test checks.
var configSchema = sync.OnceValue(func() *schema {
	s := newSchema(reflect.TypeFor[Config]())
	settings, problems := fileSettings("default.yaml", []byte(defaultYAML))
	for _, x := range settings {
		f := s.byPath[x.path]
		if f == nil {
			panic(fmt.Sprintf("default.yaml: %s is not a field of Config", x.path))
		}
		f.size = isSize(f, x.value)
	}
	problems = append(problems, s.apply(&s.defaults, settings)...)
	if len(problems) > 0 {
		panic(problems.Error())
	}
	return s
})

// Default returns the configuration of default.yaml.
func Default() Config {
	c := configSchema().defaults
	c.Plan.Packing.Buckets = slices.Clone(c.Plan.Packing.Buckets)
	c.Tokenizer.SpecialTokens = slices.Clone(c.Tokenizer.SpecialTokens)
	c.Stream.Cluster.Peers = slices.Clone(c.Stream.Cluster.Peers)
	c.Plan.Sources = map[string]mixture.Source{c.Stream.OnlySource(): onlySource()}
	c.resolveAttention()
	return c
}

// newSchema returns the schema of a struct.
func newSchema(t reflect.Type) *schema {
	s := &schema{byPath: map[string]*field{}, sections: map[string]bool{}}
	s.walk(t, "", nil)
	return s
}

func (s *schema) walk(t reflect.Type, prefix string, index []int) {
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("koanf"), ",")
		if name == "-" {
			continue
		}
		ft, at, path := t.Field(i).Type, append(slices.Clone(index), i), prefix+name
		switch {
		case ft.Kind() != reflect.Struct:
			f := &field{path: path, index: at, kind: ft}
			s.fields = append(s.fields, f)
			s.byPath[path] = f
		case options == "squash":
			s.walk(ft, prefix, at)
		default:
			s.sections[path] = true
			s.walk(ft, path+".", at)
		}
	}
}

// isSize reports whether the default of an integer field has a unit of bytes.
func isSize(f *field, value any) bool {
	text, ok := value.(string)
	if !ok {
		return false
	}
	switch f.kind.Kind() {
	case reflect.Int, reflect.Int64:
		_, err := parseSize(text)
		return err == nil
	}
	return false
}
