package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loaderd/bench/page"
)

const published = "../../docs/results/papers.md"

func testPage(t *testing.T) *report {
	t.Helper()
	p, err := page.Read(published)
	if err != nil {
		t.Fatal(err)
	}
	return &report{Page: p}
}

// One table is printed with its command, and an unknown table is refused.
func TestRun_PrintsTables(t *testing.T) {
	var out bytes.Buffer
	err := run(published, []string{"optimizing-3"}, false, false, &out)
	for _, want := range []string{
		"\n| 64, 256 | 14058 | 14050 | 17308 | 17184 | 1.231 | 1.223 |\n",
		"\n    bin/papers optimizing-3\n",
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

// Every table of the page is in a block that the program writes, with its commands. Prose has no measured figures.
func TestPage_TablesAreWritten(t *testing.T) {
	p := testPage(t)
	var named []string
	for _, b := range p.Blocks() {
		named = append(named, b.Name)
		i := slices.IndexFunc(tables, func(x table) bool { return x.name == b.Name })
		if i < 0 {
			t.Errorf("a block of no table: %s", b.Name)
			continue
		}
		if commands := b.Commands(); !slices.Equal(commands, tables[i].commands()) || !strings.HasPrefix(b.Content, "| ") {
			t.Errorf("block %s has the commands %q and begins %.40q", b.Name, commands, b.Content)
		}
		if timed := regexp.MustCompile(`\d/s|[a-z]/s|Measured on `).MatchString(b.Content); timed != tables[i].timed {
			t.Errorf("block %s: times are %v, want %v", b.Name, timed, tables[i].timed)
		}
	}
	for _, x := range tables {
		if n := len(slices.DeleteFunc(slices.Clone(named), func(name string) bool { return name != x.name })); n != 1 {
			t.Errorf("table %s has %d blocks", x.name, n)
		}
	}
	figures := regexp.MustCompile(`(?m)^ *\|.*|<!--.*|^.*\d ?%.*|^.*\d[kM]? documents/s.*`)
	for _, found := range figures.FindAllString(p.Prose(), -1) {
		t.Errorf("outside of blocks: %s", found)
	}
}

// Tables that take little time are on the page as the program writes them.
func TestPage_EqualsWrittenTables(t *testing.T) {
	p := testPage(t)
	for _, x := range tables {
		switch x.name {
		case "optimizing-3", "seamless", "beyond-1", "beyond-bucket", "beyond-fixed", "summary",
			"splice-corpus", "splice-4096", "splice-16384", "splice-speed", "splice-queries":
			want, err := x.block(p)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(p.Blocks(), page.Block{Name: x.name, Content: want}) {
				t.Errorf("make bench-papers TABLES=%s writes another block:\n%s", x.name, want)
			}
		}
	}
}

// writePage writes the published page with one string replaced, and returns its path and text.
func writePage(t *testing.T, old, replacement string) (path string, text []byte) {
	t.Helper()
	text, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(text, []byte(old), []byte(replacement), 1)
	if bytes.Equal(changed, text) {
		t.Fatalf("the page has no %q", old)
	}
	path = filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, changed
}

// An outdated figure is replaced, and the rest of the page is unchanged.
func TestRun_RewritesThePage(t *testing.T) {
	text, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	path, _ := writePage(t, "| 64, 256 | 14058 | 14050 |", "| 64, 256 | 14058 | 1 |")
	if err := run(path, []string{"optimizing-3"}, false, true, nil); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
		t.Errorf("the page becomes another one: %v", err)
	}
}

// A block without a table, or a table without a block, is an error before anything is measured or written.
func TestRun_ChecksBlocksBeforeMeasuring(t *testing.T) {
	path, text := writePage(t, "<!-- table optimizing-3 -->", "<!-- table optimizing -->")
	for _, names := range [][]string{{"seamless"}, {"seamless", "optimizing-3"}, nil} {
		err := run(path, names, false, true, nil)
		if err == nil || !strings.Contains(err.Error(), `unknown table "optimizing"`) {
			t.Errorf("%q: error is %v", names, err)
		}
		if missing := len(names) != 1; missing != strings.Contains(fmt.Sprint(err), `no block of table "optimizing-3"`) {
			t.Errorf("%q: error is %v", names, err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
		t.Errorf("the page becomes another one: %v", err)
	}
}

// The page has no row that the command below its table does not print.
func TestRun_RefusesLargeWithWrite(t *testing.T) {
	*large = true
	t.Cleanup(func() { *large = false })
	path, text := writePage(t, "| 64, 256 | 14058 | 14050 |", "| 64, 256 | 14058 | 1 |")
	err := run(path, []string{"optimizing-3"}, false, true, nil)
	if err == nil || !strings.Contains(err.Error(), "-large") {
		t.Errorf("error is %v", err)
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
		t.Errorf("the page becomes another one: %v", err)
	}
}
