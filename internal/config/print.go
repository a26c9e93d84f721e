package config

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"loaderd/loader/mixture"
	"loaderd/loader/runconfig"
)

var keyLine = regexp.MustCompile(`^( *)([a-z0-9_]+):( .*)?$`)

// Print writes default.yaml with the values of the configuration. Load reads the same Config from it.
func (c Config) Print(w io.Writer) error {
	s := configSchema()
	b := bufio.NewWriter(w)
	var sections []string // of the previous line, by depth
	for line := range strings.Lines(defaultYAML) {
		m := keyLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			b.WriteString(line)
			continue
		}
		depth := len(m[1]) / 2
		sections = append(sections[:depth], m[2])
		f := s.byPath[strings.Join(sections, ".")]
		if f == nil || reflect.DeepEqual(f.value(&c).Interface(), f.value(&s.defaults).Interface()) {
			b.WriteString(line)
			continue
		}
		fmt.Fprintf(b, "%s%s: %s\n", m[1], m[2], f.format(&c))
	}
	return b.Flush()
}

// format returns a field's value as YAML that decodes to the same value.
func (f *field) format(c *Config) string {
	switch v := f.value(c); x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case TokenID:
		return quote(string(x))
	case string:
		return quote(x)
	case []string:
		quoted := make([]string, len(x))
		for i, s := range x {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case []int:
		return "[" + strings.Trim(strings.ReplaceAll(fmt.Sprint(x), " ", ", "), "[]") + "]"
	case map[string]mixture.Source:
		if only, given := x[c.Stream.OnlySource()]; given && len(c.Pull.Sources) == 0 &&
			reflect.DeepEqual(only, onlySource()) {
			return "{}"
		}
		type source struct {
			mixture.Source
			From []string `json:"from,omitempty"`
		}
		all := map[string]source{}
		for name, s := range x {
			all[name] = source{s, c.Pull.Sources[name]}
		}
		b, err := json.Marshal(all)
		if err != nil {
			panic(fmt.Sprintf("config: write %s: %v", f.path, err)) // only numbers, strings and lists of them
		}
		return string(b)
	case []mixture.Point, []runconfig.Phase, map[string]runconfig.TokenColumn, map[string]string:
		b, err := json.Marshal(x) // JSON is valid YAML
		if err != nil {
			panic(fmt.Sprintf("config: write %s: %v", f.path, err)) // only numbers, strings and lists of them
		}
		return string(b)
	default:
		if f.size {
			return formatSize(v.Int())
		}
		return fmt.Sprint(x)
	}
}

var plainYAML = regexp.MustCompile(`^[A-Za-z./][A-Za-z0-9_./-]*$`)

// quote returns text as YAML, unquoted if that is unambiguous.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", ".inf", ".nan":
		if s != "none" {
			return strconv.Quote(s)
		}
	}
	if plainYAML.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}
