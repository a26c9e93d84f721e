package main

import (
	"slices"
	"strings"
	"testing"

	"loaderd/internal/bench/page"
)

// The tables of mixtures on their page are in blocks, each with the command that prints it.
func TestMixturesPage_TablesAreWritten(t *testing.T) {
	p, err := page.Read("../../../docs/results/mixtures.md")
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
