package page_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/bench/page"
)

const text = `Prose.

<!-- table a -->
| x | y | z |
| --- | ---: | ---: |
| 1, 2 | 3 |  |

    go run a
    loaderd a

<!-- end of table -->
More.
`

func read(t *testing.T, text string) (path string, p *page.Page) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := page.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, p
}

func TestPage_Cell(t *testing.T) {
	_, p := read(t, text)
	for _, x := range []struct{ table, row, column, want, wrong string }{
		{"a", "1, 2", "y", "3", ""},
		{"a", "1, 2", "z", "", ""},
		{"a", "1", "y", "", `no row "1"`},
		{"a", "1, 2", "w", "", `no column "w"`},
		{"b", "1, 2", "y", "", `no block of table "b"`},
	} {
		have, err := p.Cell(x.table, x.row, x.column)
		if have != x.want || (err != nil) != (x.wrong != "") || err != nil && !strings.Contains(err.Error(), x.wrong) {
			t.Errorf("%s, %s, %s is %q (%v), want %q", x.table, x.row, x.column, have, err, x.want)
		}
	}
}

// A block is replaced by what Content makes, in the file as it is then; the prose stays.
func TestPage_Replace(t *testing.T) {
	path, p := read(t, text)
	var m page.Markdown
	m.Row("x", "y")
	m.Values(1, 4.5)
	var table strings.Builder
	if err := m.Print(&table); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, "Prose", "Other prose", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Replace("a", page.Content(table.String(), "go run b")); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(path)
	want := "Other prose.\n\n<!-- table a -->\n| x | y |\n| --- | ---: |\n| 1 | 4.5 |\n\n    go run b\n\n" +
		"<!-- end of table -->\nMore.\n"
	if err != nil || string(have) != want {
		t.Errorf("%v, the page is\n%s", err, have)
	}
	blocks := p.Blocks()
	if len(blocks) != 1 || blocks[0].Name != "a" || !slices.Equal(blocks[0].Commands(), []string{"go run b"}) {
		t.Errorf("blocks %q", blocks)
	}
	if prose := p.Prose(); prose != "Other prose.\n\nMore.\n" {
		t.Errorf("prose %q", prose)
	}
	if err := p.Replace("b", ""); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("error is %v", err)
	}
}

func TestPage_CheckNames(t *testing.T) {
	_, p := read(t, text)
	for _, x := range []struct {
		tables, names []string
		want          []string
	}{
		{[]string{"a", "b"}, []string{"a"}, nil},
		{[]string{"a", "b"}, nil, nil},
		{[]string{"a", "b"}, []string{"a", "b"}, []string{`no block of table "b"`}},
		{[]string{"b"}, []string{"b"}, []string{`unknown table "a"`, `no block of table "b"`}},
	} {
		err := p.CheckNames(x.tables, x.names)
		if (err != nil) != (x.want != nil) {
			t.Errorf("tables %q, names %q: %v", x.tables, x.names, err)
		}
		for _, want := range x.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("tables %q, names %q: error %v, want %s", x.tables, x.names, err, want)
			}
		}
	}
}
