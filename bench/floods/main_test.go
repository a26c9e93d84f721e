package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/bench/page"
	"loaderd/bench/record"
)

// TestPage_HasAllFloods compares the rows of the page with the program's floods.
func TestPage_HasAllFloods(t *testing.T) {
	p, err := page.Read("../../docs/results/security.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := p.Blocks()
	if len(blocks) != 1 || blocks[0].Name != tableName || !slices.Equal(blocks[0].Commands(), []string{command}) {
		t.Fatalf("the page has the blocks %v", blocks)
	}
	var rows []string
	for line := range strings.Lines(blocks[0].Content) {
		if name, _, found := strings.Cut(strings.TrimPrefix(line, "| "), " |"); found && strings.HasPrefix(line, "| ") {
			rows = append(rows, name)
		}
	}
	want := []string{"flood", "---"}
	for _, f := range floods {
		want = append(want, f.name)
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the page has the rows %q, want %q: run make bench-security", rows, want)
	}
}

func TestPrintTable_HasMedianShareOfSpeedWithoutFlood(t *testing.T) {
	at := func(steps int, memory int64) phase { return phase{steps, time.Second, time.Second / 2, memory << 20} }
	var out strings.Builder
	alone, flooded := []phase{at(200, 100), at(200, 90), at(200, 80)}, []phase{at(150, 140), at(50, 0), at(250, 0)}
	err := printTable(&out, []result{{name: "http-idle", alone: alone, flooded: flooded}}, record.Machine{})
	if want := "| http-idle | 200 | 75 % | 25 to 125 | 2500 | 3333 | 100 | 140 |\n"; err != nil ||
		!strings.Contains(out.String(), want) {
		t.Errorf("got %s, %v", out.String(), err)
	}
}
