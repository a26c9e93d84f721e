package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lineIndex maps the path of a setting to its line in the file.
type lineIndex map[string]int

// line returns the line of path or of the nearest section above it; 0 if neither has a line.
func (l lineIndex) line(path string) int {
	for {
		if n := l[path]; n > 0 {
			return n
		}
		k := strings.LastIndexByte(path, '.')
		if k < 0 {
			return 0
		}
		path = path[:k]
	}
}

// lineNumbers parses a YAML file and returns the lines of its keys. Aliases are not followed: their settings have the
// line of the alias.
func lineNumbers(name string, data []byte) (lineIndex, *Problem) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	if err := decoder.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		p := syntaxProblem(name, data, err)
		return nil, &p
	}
	if err := decoder.Decode(new(yaml.Node)); err == nil {
		return nil, &Problem{Value: "a second document", Want: "one YAML document in the file", Origin: name}
	} else if !errors.Is(err, io.EOF) {
		p := syntaxProblem(name, data, err)
		return nil, &p
	}
	l := lineIndex{}
	if len(root.Content) == 1 {
		top := root.Content[0]
		if top.Kind != yaml.MappingNode && top.Tag != "!!null" {
			return nil, &Problem{Value: "not a mapping", Want: "lines of `key: value`",
				Origin: fmt.Sprintf("%s:%d", name, top.Line)}
		}
		l.walk(top, "")
	}
	return l, nil
}

func (l lineIndex) walk(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		path := prefix + n.Content[i].Value
		l[path] = n.Content[i].Line
		l.walk(n.Content[i+1], path+".")
	}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?(?:line (\d+): )?`)

// yamlStructure matches errors for which the library counts lines from 0, except in the first line: it reports the
// line before the error.
var yamlStructure = regexp.MustCompile(`did not find expected (',' or|'-' indicator|key|node content)`)

// syntaxProblem converts a YAML error to a Problem, with the line number in its origin.
func syntaxProblem(name string, data []byte, err error) Problem {
	if yamlStructure.MatchString(err.Error()) {
		// With an additional empty first line, the reported number is correct.
		if again := yaml.Unmarshal(append([]byte("\n"), data...), new(yaml.Node)); again != nil {
			err = again
		}
	}
	text, origin := err.Error(), name
	m := yamlLine.FindStringSubmatch(text)
	if m[1] != "" {
		origin += ":" + m[1]
	}
	return Problem{Value: strings.TrimSpace(text[len(m[0]):]), Want: "valid YAML", Origin: origin}
}
