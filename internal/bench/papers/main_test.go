package main

import (
	"bytes"
	"os"
	"path/filepath"
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
			if !strings.HasPrefix(word, "-") && (i == 0 || words[i-1] != "-mixing-figure" && words[i-1] != "-page") {
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

// The page's blocks are those of tables, one of them is as the program writes it, and a block that is not there is an error.
func TestRewrite_PageIsWhatItWrites(t *testing.T) {
	page, err := os.ReadFile("../../../docs/results/papers.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllSubmatch(page, -1)
	if n := bytes.Count(page, []byte("<!-- ")); n != 2*len(blocks) {
		t.Errorf("%d blocks and %d marks", len(blocks), n)
	}
	for _, b := range blocks {
		if !slices.ContainsFunc(tables, func(x table) bool { return x.name == string(b[2]) }) {
			t.Errorf("a block of no table: %s", b[2])
		}
	}
	at := filepath.Join(t.TempDir(), "page.md")
	stale := bytes.Replace(page, []byte("| 64, 256 | 14058 | 14050 |"), []byte("| 64, 256 | 14058 | 1 |"), 1)
	if err := os.WriteFile(at, stale, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(at, []string{"optimizing-3"}); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(at); err != nil || !bytes.Equal(have, page) || bytes.Equal(stale, page) {
		t.Errorf("the page becomes another one: %v", err)
	}
	if err := rewrite(at, []string{"optimizing"}); err == nil || !strings.Contains(err.Error(), `"optimizing"`) {
		t.Errorf("error is %v", err)
	}
}
