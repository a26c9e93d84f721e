package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"loaderd/loader/runconfig"
)

// Layers are the sources of settings that override the defaults. Later fields take precedence over earlier ones.
type Layers struct {
	Name      string     // of the file, for messages
	YAML      []byte     // its contents; empty for no file
	Environ   []string   // NAME=value; only names with EnvPrefix count
	Overrides []Override // from flags; later ones take precedence
}

// Load returns the configuration of the layers. The error is of type Problems and contains all errors.
func Load(l Layers) (Config, error) {
	s, c := configSchema(), Default()
	settings, problems := fileSettings(l.Name, l.YAML)
	settings = append(settings, s.envSettings(l.Environ)...)
	settings = append(settings, overrideSettings(l.Overrides)...)
	settings, ofSources := splitSources(settings)
	problems = append(problems, s.apply(&c, settings)...)
	problems = append(problems, c.applySources(ofSources)...)
	settings = append(settings, ofSources...)

	last := map[string]setting{}
	for _, x := range settings {
		last[x.path] = x
	}
	if _, given := last["attention"]; !given {
		c.Plan.Attention = runconfig.AttentionAuto
	}
	c.resolveAttention()
	wrong := map[string]bool{}
	for _, p := range problems {
		wrong[p.Path] = true
	}
	for _, p := range c.Validate() {
		if wrong[p.Path] {
			continue
		}
		p.Origin = "default"
		if x, ok := nearestSetting(last, p.Path); ok {
			p.Origin = x.origin
			if strings.HasPrefix(x.path, p.Path) { // the field, or a setting of an invalid section
				p.Path, p.Value = x.path, x.value
			}
		}
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return Config{}, problems
	}
	return c, nil
}

// apply decodes settings into c, in order, and returns a Problem for each invalid one.
func (s *schema) apply(c *Config, settings []setting) Problems {
	var problems Problems
	for _, x := range settings {
		f := s.byPath[x.path]
		switch {
		case f != nil:
			if err := f.decode(c, x.value, x.text); err != nil {
				problems = append(problems, Problem{x.path, x.value, f.describeValues(), x.origin})
			}
		case s.sections[x.path]:
			if m, ok := x.value.(map[string]any); x.value == nil || ok && len(m) == 0 {
				continue // a section in which everything is commented out
			}
			if x.value == string(Auto) && s.setTokens(c, x) {
				continue
			}
			problems = append(problems, Problem{x.path, x.value, "a section with settings below it", x.origin})
		default:
			if f, name, rest := s.mapField(x.path); f != nil {
				if p := f.setMapEntry(c, name, rest, x); p != nil {
					problems = append(problems, *p)
				}
				continue
			}
			problems = append(problems, Problem{x.path, x.value, s.describeUnknown(x.path), x.origin})
		}
	}
	return problems
}

// setTokens sets all fields of a section of tokens to a value. It returns false if the section has other fields.
func (s *schema) setTokens(c *Config, x setting) bool {
	for _, f := range s.fields {
		if strings.HasPrefix(f.path, x.path+".") {
			if f.kind != tokenIDType || f.decode(c, x.value, x.text) != nil {
				return false
			}
		}
	}
	return true
}

// describeUnknown describes the valid settings for a path that is no field, with a suggestion if one is similar.
func (s *schema) describeUnknown(path string) string {
	section, _ := splitLast(path)
	if s.byPath[section] != nil {
		return fmt.Sprintf("a value for %s, which is not a section", section)
	}
	known := slices.Sorted(maps.Keys(s.byPath))
	if near, ok := suggest(path, known); ok {
		return fmt.Sprintf("a known setting: did you mean %s?", near)
	}
	_, name := splitLast(path)
	var there []string // fields with this name in other sections
	for _, k := range known {
		if _, n := splitLast(k); n == name {
			there = append(there, k)
		}
	}
	if len(there) > 0 {
		return fmt.Sprintf("a known setting: did you mean %s?", strings.Join(there, " or "))
	}
	if s.sections[section] {
		var names []string
		for _, k := range known {
			if in, n := splitLast(k); in == section {
				names = append(names, n)
			}
		}
		return fmt.Sprintf("a known setting of %s: one of %s", section, strings.Join(names, ", "))
	}
	return fmt.Sprintf("a known setting; sections are %s", strings.Join(slices.Sorted(maps.Keys(s.sections)), ", "))
}

func splitLast(path string) (section, name string) {
	k := strings.LastIndexByte(path, '.')
	return path[:max(k, 0)], path[k+1:]
}

// nearestSetting returns the setting of path, of the list that contains it (packing.buckets for packing.buckets[1]), or
// of a path below it (stream.tls.ca for stream.tls).
func nearestSetting(settings map[string]setting, path string) (setting, bool) {
	if x, ok := settings[path]; ok {
		return x, true
	}
	if list, _, ok := strings.Cut(path, "["); ok {
		x, ok := settings[list]
		return x, ok
	}
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		if strings.HasPrefix(k, path+".") {
			return settings[k], true
		}
	}
	return setting{}, false
}
