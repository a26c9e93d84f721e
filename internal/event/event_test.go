package event_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"loaderd/internal/event"
	"loaderd/internal/goldentest"
)

const head = `# Log events

<!-- Written by go test ./internal/event -run Docs -update from internal/event. -->

The daemon writes its log to standard error, as text or as JSON (` + "`log.format`" + `). A record that a program may match on has the key ` + "`event`" + `. Its names
are stable; messages and their wording are not. In JSON: ` + "`{\"level\":\"WARN\",\"msg\":\"…\",\"event\":\"rank.missing\",\"job\":\"pretrain\",…}`" + `. Values are under
the keys that the second column names. Keys that have no value in a record are left out.

| event | when |
| --- | --- |
`

func TestDocs_EventsPageMatchesEvents(t *testing.T) {
	goldentest.Compare(t, "../../../docs/reference/events.md", func(w io.Writer) error {
		if _, err := io.WriteString(w, head); err != nil {
			return err
		}
		for _, e := range event.All() {
			if _, err := fmt.Fprintf(w, "| `%s` | %s |\n", e.Name, e.Meaning); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestAll_NamesAreDistinctAndWellFormed(t *testing.T) {
	names := map[string]bool{}
	for _, e := range event.All() {
		if !regexp.MustCompile(`^[a-z]+(\.[a-z]+(_[a-z]+)*)?$`).MatchString(e.Name) || names[e.Name] {
			t.Errorf("the name %q is malformed, or of two events", e.Name)
		}
		if !strings.HasSuffix(e.Meaning, ".") && !strings.HasSuffix(e.Meaning, "`") {
			t.Errorf("the meaning of %s is no sentence: %q", e.Name, e.Meaning)
		}
		names[e.Name] = true
	}
}

// Every event is logged by some package, and no package gives a record another event.
func TestAll_EveryEventIsLogged(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	logged := map[string]bool{}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, s := range g.Specs {
				if name := s.(*ast.ValueSpec).Names[0].Name; ast.IsExported(name) {
					logged[name] = false
				}
			}
		}
	}
	if len(logged) != len(event.All()) {
		t.Fatalf("%d events are declared, and %d defined", len(logged), len(event.All()))
	}
	used := regexp.MustCompile(`\bevent\.([A-Z]\w*)`)
	root := filepath.Join("..", "..")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (path != root && strings.HasPrefix(name, ".") || name == "bench" || name == "tools" ||
			path == filepath.Join(root, "internal", "event") || path == filepath.Join(root, "internal", "status")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(b), `"event", "`) {
			t.Errorf("%s names an event that package event does not define", path)
		}
		for _, m := range used.FindAllStringSubmatch(string(b), -1) {
			if _, known := logged[m[1]]; known {
				logged[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, is := range logged {
		if !is {
			t.Errorf("nothing logs event.%s", name)
		}
	}
}
