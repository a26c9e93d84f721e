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

const published = "../../../docs/results/papers.md"

func testPage(t *testing.T) *page {
	t.Helper()
	p, err := readPage(published)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// One table is printed with its command, and one that is not there is refused.
func TestRun_PrintsTables(t *testing.T) {
	var out bytes.Buffer
	err := run(published, []string{"optimizing-3"}, false, false, &out)
	for _, want := range []string{
		"\n| 64, 256 | 14058 | 14050 | 17308 | 17184 | 1.231 | 1.223 |\n",
		"\n    go run ./internal/bench/papers optimizing-3\n",
	} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v\nwant %s in:\n%s", err, want, &out)
		}
	}
	err = run(published, []string{"optimizing-3", "fewer"}, false, false, &out)
	if err == nil || !strings.Contains(err.Error(), `"fewer"`) {
		t.Errorf("error is %v", err)
	}
}

// Every table of the page is in a block that the program writes, with its commands. Prose has no figures that were measured.
func TestPage_TablesAreWritten(t *testing.T) {
	p := testPage(t)
	var named []string
	for _, m := range marks.FindAllStringSubmatch(p.text, -1) {
		named = append(named, m[1])
		i := slices.IndexFunc(tables, func(x table) bool { return x.name == m[1] })
		if i < 0 {
			t.Errorf("a block of no table: %s", m[1])
			continue
		}
		var commands []string
		for _, c := range regexp.MustCompile(`(?m)^    (.*)$`).FindAllStringSubmatch(m[2], -1) {
			commands = append(commands, c[1])
		}
		if !slices.Equal(commands, tables[i].commands()) || !strings.HasPrefix(m[2], "| ") {
			t.Errorf("block %s has the commands %q and begins %.40q", m[1], commands, m[2])
		}
		if timed := regexp.MustCompile(`\d/s|[a-z]/s|Measured on `).MatchString(m[2]); timed != tables[i].timed {
			t.Errorf("block %s: times are %v, want %v", m[1], timed, tables[i].timed)
		}
	}
	for _, x := range tables {
		if n := len(slices.DeleteFunc(slices.Clone(named), func(name string) bool { return name != x.name })); n != 1 {
			t.Errorf("table %s has %d blocks", x.name, n)
		}
	}
	prose := marks.ReplaceAllString(p.text, "")
	for _, found := range regexp.MustCompile(`(?m)^ *\|.*|<!--.*|^.*\d ?%.*|^.*\d[kM]? documents/s.*`).FindAllString(prose, -1) {
		t.Errorf("outside of blocks: %s", found)
	}
}

// Tables that take moments are on the page as the program writes them.
func TestPage_IsAsWritten(t *testing.T) {
	p := testPage(t)
	for _, x := range tables {
		switch x.name {
		case "optimizing-3", "seamless", "beyond-1", "beyond-bucket", "beyond-fixed", "summary",
			"splice-corpus", "splice-4096", "splice-16384", "splice-speed", "splice-queries":
			want, err := x.block(p)
			if err != nil {
				t.Fatal(err)
			}
			if from, to, err := p.find(x.name); err != nil || p.text[from:to] != want {
				t.Errorf("%v: make bench-papers TABLES=%s writes another block:\n%s", err, x.name, want)
			}
		}
	}
}

// A stale figure is replaced, and the rest of the page is as it was.
func TestRun_RewritesThePage(t *testing.T) {
	p := testPage(t)
	at := filepath.Join(t.TempDir(), "page.md")
	stale := strings.Replace(p.text, "| 64, 256 | 14058 | 14050 |", "| 64, 256 | 14058 | 1 |", 1)
	if err := os.WriteFile(at, []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(at, []string{"optimizing-3"}, false, true, nil); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(at); err != nil || string(have) != p.text || stale == p.text {
		t.Errorf("the page becomes another one: %v", err)
	}
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(at, []string{"optimizing-3"}, false, true, nil)
	if err == nil || !strings.Contains(err.Error(), `"optimizing-3"`) {
		t.Errorf("error is %v", err)
	}
}

// The summary has figures of the page, and refuses those that are not there.
func TestPage_Cell(t *testing.T) {
	p := &page{path: "page.md", text: `<!-- table a -->
| x | y | z |
| --- | ---: | ---: |
| 1, 2 | 3 |  |
<!-- end of table -->
`}
	for _, x := range []struct{ table, row, column, want, wrong string }{
		{"a", "1, 2", "y", "3", ""},
		{"a", "1, 2", "z", "", ""},
		{"a", "1", "y", "", `no row "1"`},
		{"a", "1, 2", "w", "", `no column "w"`},
		{"b", "1, 2", "y", "", `no block of table "b"`},
	} {
		have, err := p.cell(x.table, x.row, x.column)
		if have != x.want || (err != nil) != (x.wrong != "") || err != nil && !strings.Contains(err.Error(), x.wrong) {
			t.Errorf("%s, %s, %s is %q (%v), want %q", x.table, x.row, x.column, have, err, x.want)
		}
	}
}
