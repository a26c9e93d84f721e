package mixture_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/mixture"
)

// Settle returns the sources with a new epoch once, including epochs that a seal has started, and the end.
func TestMixture_ApplySourceEndsReturnsEpochsAndEnd(t *testing.T) {
	twice := plain(1)
	twice.Epochs = 2
	c := config(map[string]mixture.Source{"a": twice, "b": plain(1)})
	m := open(t, c, map[string]mixture.SourceRange{"a": {First: 1}, "b": {First: 1, Last: 1, Sealed: true}})
	settled := func(ended bool, begun ...int) {
		t.Helper()
		if x := m.ApplySourceEnds(); x.Ended != ended || !slices.Equal(x.NewEpochs, begun) {
			t.Fatalf("%+v, want the end %t and epochs of %v", x, ended, begun)
		}
	}
	settled(false)
	take := func(want int) {
		t.Helper()
		source, _, ok := m.Next()
		if !ok || source != want {
			t.Fatalf("source %d is next (%t), want %d", source, ok, want)
		}
		m.RecordNext(10, 10)
	}
	take(0)
	settled(false)
	take(1)
	settled(false) // without a seal, a may have another document, and it has epochs left
	if err := m.Seal(0, 1); err != nil {
		t.Fatal(err)
	}
	settled(false, 0)
	settled(false)
	take(0)
	settled(true)
}

// A point with After starts where the next document of its source would be taken, and not before.
func TestMixture_SourcesInSequence(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(1), "b": plain(0), "c": plain(1)})
	c.Sources["a"] = mixture.Source{Weight: 1, Epochs: 2}
	c.Mix.Schedule = []mixture.Point{{After: "a", Weights: map[string]float64{"a": 0, "b": 1, "c": 1}},
		{After: "b", Ramp: 1, Weights: map[string]float64{"a": 0, "b": 0, "c": 1}}}
	m := open(t, c, map[string]mixture.SourceRange{"a": {First: 1, Last: 2, Sealed: true},
		"b": {First: 1, Last: 3, Sealed: true}, "c": {First: 1, Last: 9, Sealed: true}})
	var taken []string
	for !m.ApplySourceEnds().Ended {
		source, _, _ := m.Next()
		taken = append(taken, m.Name(source))
		m.RecordNext(10, 10)
	}
	if have := strings.Join(taken, ""); have != "acacacacbcbcbccc" {
		t.Errorf("sources are taken as %s", have)
	}
}

// Shares returns the same slice until the shares change, and never modifies a returned slice.
func TestMixture_SharesAreReplaced(t *testing.T) {
	c := config(map[string]mixture.Source{"a": plain(1), "b": plain(3)})
	m := open(t, c, live(c.Sources))
	first := m.Shares()
	before := fmt.Sprint(first)
	for range 10 {
		m.Next()
		m.RecordNext(10, 10)
		m.ApplySourceEnds()
		if &m.Shares()[0] != &first[0] {
			t.Fatal("the slice is another one, and the shares have not changed")
		}
	}
	if err := m.Rest(0, true); err != nil {
		t.Fatal(err)
	}
	if &m.Shares()[0] == &first[0] || fmt.Sprint(first) != before || m.Shares()[1] != mixture.Unit {
		t.Errorf("shares are %v behind %v, which were %s", m.Shares(), first, before)
	}
}
