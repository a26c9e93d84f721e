package loader_test

import (
	"testing"

	"loaderd/loader/state"
)

// Stock returns the state of the streams of a run's sources.
func TestStreamStates_OfSources(t *testing.T) {
	w, s := mixed(mixedConfig(), "code", "math", "web")
	fill(s)
	s["math"].sealed = true
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 1)
	stock, err := run.StreamStates(t.Context())
	must(t, err)
	if len(stock) != 3 || stock[0].Last != 90 || stock[1].Last != 25 || !stock[1].Sealed || stock[2].Last != 130 ||
		stock[2].Name != "DOCS_web" {
		t.Errorf("the streams hold %+v", stock)
	}
	must(t, stop())

	plain := newFixture(config("bfd"))
	plain.docs.lengths(3, 4)
	run, stop = plain.start(t)
	if stock, err := run.StreamStates(t.Context()); err != nil || len(stock) != 1 || stock[0].Last != 2 {
		t.Errorf("the stream holds %+v, %v", stock, err)
	}
	must(t, stop())
}
