package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/bench/page"
)

// The tables of mixtures on their page are in blocks, each with the command that prints it.
func TestMixturesPage_TablesAreWritten(t *testing.T) {
	p, err := page.Read("../../docs/results/mixtures.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, b := range p.Blocks() {
		named = append(named, b.Name)
		i := slices.IndexFunc(tables, func(x table) bool { return x.name == b.Name })
		if i < 0 || !slices.Equal(b.Commands(), []string{tables[i].command()}) || !strings.HasPrefix(b.Content, "| ") {
			t.Errorf("block %s has the commands %q and begins %.40q", b.Name, b.Commands(), b.Content)
		}
	}
	for _, x := range tables {
		if strings.HasPrefix(x.name, "mix") && !slices.Contains(named, x.name) {
			t.Errorf("the page has no block of table %s", x.name)
		}
	}
}

// A block without a table, or a table without a block, is an error before anything is measured.
func TestRun_ChecksBlocksBeforeMeasuring(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	text := "<!-- table mixspeed -->\n<!-- end of table -->\n<!-- table mixed -->\n<!-- end of table -->\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a valid table fails with another error
	for _, x := range []struct {
		names []string
		want  string
	}{
		{nil, `unknown table "mixed"`},
		{[]string{"mixspeed"}, `unknown table "mixed"`},
		{[]string{"mixspeed", "mixshares"}, `no block of table "mixshares"`},
		{[]string{"mixed"}, `no table "mixed"`},
	} {
		err := run(ctx, &bench{page: path, planned: 1, repeats: 1}, x.names, false, io.Discard)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: error is %v, want %s", x.names, err, x.want)
		}
	}
}
