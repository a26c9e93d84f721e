package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRun prints one table and refuses one that is not there.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"optimizing-3"}, false, &out); err != nil || !strings.Contains(out.String(), "\n| 64, 256 | 14058 | 14050 | 17308 | 17184 | 1.231 | 1.223 |\n") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := run([]string{"optimizing-3", "fewer"}, false, &out); err == nil || !strings.Contains(err.Error(), `"fewer"`) {
		t.Errorf("error is %v", err)
	}
}

// TestPageNamesTheTables: docs/results/papers.md has the command of every table, and of none that is not there.
func TestPageNamesTheTables(t *testing.T) {
	page, err := os.ReadFile("../../../docs/results/papers.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, command := range regexp.MustCompile(`(?m)^ +go run \./internal/bench/papers([^#\n]*)`).FindAllStringSubmatch(string(page), -1) {
		words := strings.Fields(command[1])
		for i, word := range words {
			if !strings.HasPrefix(word, "-") && (i == 0 || words[i-1] != "-mixing-figure") {
				named = append(named, word)
			}
		}
	}
	for _, x := range tables {
		if !slices.Contains(named, x.name) {
			t.Errorf("no command prints %s", x.name)
		}
	}
	for _, name := range named {
		if !slices.ContainsFunc(tables, func(x table) bool { return x.name == name }) {
			t.Errorf("no table %s", name)
		}
	}
}
