package architecture_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest  = regexp.MustCompile("`((?:Test|test_)[A-Za-z0-9_]+)(\\*?)`")
	writtenOne = regexp.MustCompile(`(?m)^(?:func|def) ((?:Test|test_)[A-Za-z0-9_]+)\(`)
)

// Each limit on the page of the threat model names an existing test.
func TestSecurityPage_NamesExistingTests(t *testing.T) {
	t.Chdir(root)
	written := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") && filepath.Ext(path) != ".py" {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range writtenOne.FindAllSubmatch(text, -1) {
			written[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/explanation/security.md")
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllStringSubmatch(string(page), -1)
	if len(named) < 40 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, x := range named {
		exists := written[x[1]]
		for name := range written {
			exists = exists || x[2] == "*" && strings.HasPrefix(name, x[1])
		}
		if !exists {
			t.Errorf("the page names %s%s, which is no test", x[1], x[2])
		}
	}
	if lines := strings.Count(string(page), "\n"); lines > 150 {
		t.Errorf("the page has %d lines", lines)
	}
}
