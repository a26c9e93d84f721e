package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// default.yaml contains exactly the fields of Config, each directly below its comment.
func TestSchema_EveryFieldIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	var sections []string
	previous := ""
	for line := range strings.Lines(defaultYAML) {
		line = strings.TrimSuffix(line, "\n")
		if m := keyLine.FindStringSubmatch(line); m != nil {
			sections = append(sections[:len(m[1])/2], m[2])
			path := strings.Join(sections, ".")
			documented[path] = strings.HasPrefix(strings.TrimSpace(previous), "# ")
			if m[3] == "" {
				delete(documented, path) // a section
			}
		}
		previous = line
	}
	s := configSchema()
	for _, f := range s.fields {
		if !documented[f.path] {
			t.Errorf("default.yaml has no line, or no comment above it, for %s", f.path)
		}
	}
	for path := range documented {
		if s.byPath[path] == nil {
			t.Errorf("default.yaml has %s, Config does not", path)
		}
	}
}

// Every exported field reachable from Config has a koanf tag. A field without one could not be configured.
func TestSchema_EveryFieldHasKoanfTag(t *testing.T) {
	var walk func(reflect.Type, string)
	walk = func(s reflect.Type, at string) {
		for f := range s.Fields() {
			f := f
			tag, ok := f.Tag.Lookup("koanf")
			if !ok {
				t.Errorf("%s%s has no koanf tag", at, f.Name)
			}
			if f.Type.Kind() == reflect.Struct && tag != "-" {
				walk(f.Type, at+f.Name+".")
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
}

// No number may be negative, infinite or NaN, and no duration negative.
func TestSchema_EveryNumberHasRange(t *testing.T) {
	for _, f := range configSchema().fields {
		var bad []string
		switch k := f.kind.Kind(); {
		case f.kind == reflect.TypeFor[time.Duration]():
			bad = []string{"-5s"}
		case k >= reflect.Int && k <= reflect.Int64, k >= reflect.Uint && k <= reflect.Uint64:
			bad = []string{"-5"}
		case k == reflect.Float32 || k == reflect.Float64:
			bad = []string{"-5", "nan", "inf"}
		}
		for _, value := range bad {
			overrides := []Override{{Path: f.path, Value: value, Flag: "--set"}}
			if strings.HasPrefix(f.path, "packing.splice.") { // only method splice uses these
				overrides = append(overrides, Override{Path: "packing.method", Value: "splice", Flag: "--set"})
			}
			_, err := Load(Layers{Overrides: overrides})
			if err == nil || !strings.Contains(err.Error(), f.path) {
				t.Errorf("--set %s=%s: %v", f.path, value, err)
			}
		}
	}
}

func TestSize_ParseAndFormat(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "4096": 4096, "64MiB": 64 << 20, "1GB": 1e9, "1 gib": 1 << 30,
		"7B": 7, "2kB": 2000, "-1KiB": -1024} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
		if again, err := parseSize(formatSize(got)); err != nil || again != got {
			t.Errorf("formatSize(%d) = %q reads as %d, %v", got, formatSize(got), again, err)
		}
	}
	for _, text := range []string{"", "MiB", "1.5GiB", "1XB", "9999999999999999999", "9000000TiB", "1 2"} {
		if n, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, n)
		}
	}
}

func TestDistance_EditDistance(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"seed", "sede", 1}, {"pol", "pool", 1}, {"pool", "pol", 1}, {"kitten", "sitting", 3}} {
		if got := distance(x.a, x.b); got != x.want {
			t.Errorf("distance(%q, %q) = %d, want %d", x.a, x.b, got, x.want)
		}
	}
}
