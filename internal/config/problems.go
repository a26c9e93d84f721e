package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Problem is one error in a configuration.
type Problem struct {
	Path   string // stream.max_bytes; empty for an error of a whole file
	Value  any    // as it was written
	Want   string // the allowed values
	Origin string // its place: file:line, environment variable, flag, or default
}

func (p Problem) String() string {
	s := formatValue(p.Value)
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	s += ": want " + p.Want
	if p.Origin != "" {
		s += " (" + p.Origin + ")"
	}
	return s
}

// Problems are all errors in a configuration, as one error.
type Problems []Problem

func (p Problems) Error() string {
	if len(p) == 1 {
		return "read configuration: " + p[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "read configuration: %d problems:", len(p))
	for _, x := range p {
		b.WriteString("\n  " + x.String())
	}
	return b.String()
}

const maxShownBytes = 80 // maximum bytes of a value in a message

func formatValue(value any) string {
	s := fmt.Sprint(value)
	switch value.(type) {
	case nil:
		return "empty"
	case string, TokenID:
		s = fmt.Sprintf("%q", s)
	case map[string]any, []any:
		if text, err := json.Marshal(value); err == nil { // as in YAML
			s = string(text)
		}
	}
	if len(s) > maxShownBytes {
		s = strings.ToValidUTF8(s[:maxShownBytes], "") + "..."
	}
	return s
}

// suggest returns the known name that is most similar to an unknown one. ok is false if none is similar.
func suggest(name string, known []string) (best string, ok bool) {
	nearest := 1 + len(name)/3
	for _, k := range known {
		if d := distance(name, k); d <= nearest && (best == "" || d < nearest) {
			best, nearest = k, d
		}
	}
	return best, best != ""
}

// distance returns the number of letters to insert, delete, replace or swap with a neighbour to change a to b.
func distance(a, b string) int {
	if len(a) > 100 {
		a = a[:100]
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
