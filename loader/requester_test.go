package loader_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// sealedBy returns a run that was flushed and sealed on behalf of who, and its batches.
func sealedBy(t *testing.T, who string) (*fixture, []*assembly.Batch) {
	t.Helper()
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(2, 60)...)
	w.options.Ahead = 1 << 20
	run, stop := w.start(t)
	settled(t, run, 60)
	if _, err := run.FlushBy(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	w.docs.lengths(someLengths(3, 60)...)
	settled(t, run, 120)
	if _, err := run.SealBy(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	batches := read(t, run, state.RankID{World: 1}, 0, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return w, batches
}

// The plan names the requester of a seal or flush, and audits and lists of runs show it. The steps do not depend on
// the requester.
func TestRequester_IsRecordedInPlan(t *testing.T) {
	nobody, want := sealedBy(t, "")
	alice, have := sealedBy(t, "alice")
	if !reflect.DeepEqual(have, want) {
		t.Error("the batches depend on who asked")
	}
	for what, w := range map[string]*fixture{"": nobody, ", asked for by alice": alice} {
		audited, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
			w.config.Tokenizer, nil)
		if err != nil {
			t.Fatal(err)
		}
		var controls []string
		for _, c := range audited.Controls {
			if e, err := planrecord.Decode(w.plan.records[c.Record-1]); err != nil ||
				e.(planrecord.Control).String() != c.Description {
				t.Errorf("record %d is %v, %v; audited %s", c.Record, e, err, c.Description)
			}
			controls = append(controls, c.Description)
		}
		if said := []string{"flush behind arrival 60" + what, "seal of source 0 behind its document 120, behind arrival 120" +
			what}; !slices.Equal(controls, said) {
			t.Errorf("the audit returned %q, want %q", controls, said)
		}
		s, err := maintenance.Summarize(t.Context(), w.plan, nil)
		if err != nil || s.Sources[0].Last != 120 || !strings.HasSuffix(what, s.SealedBy) ||
			(s.SealedBy == "") != (what == "") {
			t.Errorf("%+v, %v", s, err)
		}
	}
	steps := func(w *fixture) (steps [][]byte) {
		for _, b := range w.plan.records {
			if planrecord.IsStepKind(b[3]) {
				steps = append(steps, b)
			}
		}
		return steps
	}
	if !reflect.DeepEqual(steps(alice), steps(nobody)) {
		t.Error("the records of the steps depend on who asked")
	}
}

// A name that a record cannot hold is refused, because the plan could not be read otherwise.
func TestRequester_RefusesInvalidNames(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(1, 2, 3)
	run, stop := w.start(t)
	for _, name := range []string{"ålice", "a\nb", strings.Repeat("a", 256)} {
		if _, err := run.SealBy(t.Context(), name); reason(err) != fault.InvalidTicket {
			t.Errorf("seal by %q: %v", name, err)
		}
		if _, err := run.FlushBy(t.Context(), name); reason(err) != fault.InvalidTicket {
			t.Errorf("flush by %q: %v", name, err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, b := range w.plan.records[1:] {
		if !isTerm(b) {
			t.Errorf("recorded %q", b)
		}
	}
}
