package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The charts of the results page are those of its run.
func TestCharts_AreOfTheRunOnThePage(t *testing.T) {
	const results = "../../docs/results"
	folder := t.TempDir()
	if err := drawAll(filepath.Join(results, "bench.json"), folder); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(results, "bench.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		name := "bench-" + a.name + ".svg"
		want, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(results, "img", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not of the last run (%v): write it with bin/charts", name, err)
		}
		if !bytes.Contains(page, []byte("img/"+name)) {
			t.Errorf("the page does not show %s", name)
		}
	}
}

func TestMeasure_GainIsLargerIfBetter(t *testing.T) {
	for _, m := range []measure{{Ratio: 2, Better: "higher"}, {Ratio: 0.5, Better: "lower"}} {
		if m.gain() != 2 {
			t.Errorf("%+v: %v, want 2", m, m.gain())
		}
	}
}

func TestDraw_RefusesRunWithoutMeasures(t *testing.T) {
	name := filepath.Join(t.TempDir(), "run.json")
	for text, ok := range map[string]bool{`{"measures":[]}`: true, `{`: false} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(name); (err == nil) != ok {
			t.Errorf("read %s: %v", text, err)
		}
		if err := drawAll(name, t.TempDir()); err == nil {
			t.Errorf("%s is drawn", text)
		}
	}
}
