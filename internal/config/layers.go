package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

// EnvPrefix begins the name of every environment variable that is read. The rest is the field's path in capitals with
// __ between its parts: LOADERD_STREAM__MAX_BYTES is stream.max_bytes.
const EnvPrefix = "LOADERD_"

// Override is one setting from the command line.
type Override struct {
	Path  string // stream.dir
	Value string
	Flag  string // what the user typed, for messages: --data-dir
}

// setting is one value from one layer.
type setting struct {
	path   string
	value  any
	origin string // where it was written: loaderd.yaml:12, LOADERD_SEED, --set
	text   bool   // from a place that knows only text
}

// fileSettings reads a YAML file.
func fileSettings(name string, data []byte) ([]setting, Problems) {
	lines, problem := lineNumbers(name, data)
	if problem != nil {
		return nil, Problems{*problem}
	}
	k := koanf.New(".")
	if err := k.Load(rawbytes.Provider(data), yaml.Parser()); err != nil {
		return nil, Problems{syntaxProblem(name, data, err)}
	}
	all := k.All()
	settings := make([]setting, 0, len(all))
	for path, value := range all {
		origin := name
		if line := lines.of(path); line > 0 {
			origin = fmt.Sprintf("%s:%d", name, line)
		}
		settings = append(settings, setting{path: path, value: value, origin: origin})
	}
	return sorted(settings), nil
}

// envSettings reads the environment. An empty variable is as good as none. A variable without __ counts only when it
// names a top-level field, or misses one by a letter: others that happen to begin with the prefix (a container
// platform's LOADERD_SERVICE_HOST) are none of ours.
func (s *schema) envSettings(environ []string) []setting {
	origins := map[string]string{}
	values, _ := env.Provider("", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			if value == "" {
				return "", nil
			}
			path := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, EnvPrefix)), "__", ".")
			if !strings.Contains(path, ".") && s.byPath[path] == nil && !s.misspelt(path) {
				return "", nil
			}
			origins[path] = name
			return path, value
		},
	}).Read() // reads from memory: it can not fail
	var settings []setting
	for path, value := range values {
		settings = append(settings, setting{path: path, value: value, origin: origins[path], text: true})
	}
	return sorted(settings)
}

// misspelt reports whether path is one letter away from a top-level field.
func (s *schema) misspelt(path string) bool {
	return slices.ContainsFunc(s.fields, func(f *field) bool {
		return !strings.Contains(f.path, ".") && distance(path, f.path) == 1
	})
}

func overrideSettings(overrides []Override) []setting {
	var settings []setting
	for _, o := range overrides {
		settings = append(settings, setting{path: o.Path, value: o.Value, origin: o.Flag, text: true})
	}
	return settings
}

func sorted(settings []setting) []setting {
	slices.SortFunc(settings, func(a, b setting) int { return strings.Compare(a.path, b.path) })
	return settings
}
