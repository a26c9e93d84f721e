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

// EnvPrefix is the prefix of the environment variables that are read. The rest of a name is the field's path in
// capitals with __ as separator: LOADERD_STREAM__MAX_BYTES is stream.max_bytes.
const EnvPrefix = "LOADERD_"

// Override is a setting from the command line.
type Override struct {
	Path  string // stream.dir
	Value string
	Flag  string // as typed by the user, for messages: --data-dir
}

// setting is a value from one layer.
type setting struct {
	path   string
	value  any
	origin string // its place: loaderd.yaml:12, LOADERD_SEED, --set
	text   bool   // from a layer that contains only text
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
		if line := lines.line(path); line > 0 {
			origin = fmt.Sprintf("%s:%d", name, line)
		}
		settings = append(settings, setting{path: path, value: value, origin: origin})
	}
	return sortByPath(settings), nil
}

// envSettings reads the environment. An empty variable counts as unset. A variable without __ is read only if its
// name is that of a top-level field, or differs from one by one letter. Other variables with the prefix do not belong
// to loaderd, such as a container platform's LOADERD_SERVICE_HOST.
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
			if !strings.Contains(path, ".") && s.byPath[path] == nil && !s.isMisspelled(path) {
				return "", nil
			}
			origins[path] = name
			return path, value
		},
	}).Read() // reads from memory and cannot fail
	var settings []setting
	for path, value := range values {
		settings = append(settings, setting{path: path, value: value, origin: origins[path], text: true})
	}
	return sortByPath(settings)
}

// isMisspelled reports whether path differs by one letter from a top-level field.
func (s *schema) isMisspelled(path string) bool {
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

func sortByPath(settings []setting) []setting {
	slices.SortFunc(settings, func(a, b setting) int { return strings.Compare(a.path, b.path) })
	return settings
}
