package loader_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"loaderd/loader/assembly"
	"loaderd/loader/maintenance"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// lived runs a run to its end and returns its batches and its id.
func lived(t *testing.T, w *fixture) (batches []*assembly.Batch, id string) {
	t.Helper()
	run, stop := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	batches = read(t, run, state.RankID{World: 1}, 0, 0)
	info := run.Info()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if !info.HasPlan || !planrecord.IsRunID(info.ID) || info.ID == "" {
		t.Fatalf("%+v", info)
	}
	return batches, info.ID
}

// unsealed returns a plan's decisions without the seal, whose position depends on the number of steps planned when it
// was requested.
func unsealed(t *testing.T, records [][]byte) [][]byte {
	return slices.DeleteFunc(decisions(t, records), func(b []byte) bool {
		e, err := planrecord.Decode(b)
		must(t, err)
		_, is := e.(planrecord.SealSource)
		return is
	})
}

// A run that is deleted and restarted over the same documents differs only in the id in its header.
func TestRunID_RestartedRunDiffersOnlyInID(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(2, 120)...)
	first, id := lived(t, w)
	records := w.plan.records
	if _, again := lived(t, w); again != id {
		t.Errorf("after a restart the run has the id %s, before it had %s", again, id)
	}
	w.plan, w.checkpoints.data = &memLog{}, map[string][]byte{}
	second, other := lived(t, w)
	if other == id {
		t.Error("two runs have one id")
	}
	if !reflect.DeepEqual(second, first) {
		t.Error("the batches differ")
	}
	if bytes.Equal(w.plan.records[0], records[0]) {
		t.Error("the header is that of another run")
	}
	if a, b := digest(unsealed(t, w.plan.records)...), digest(unsealed(t, records)...); a != b {
		t.Error("the plans differ in more than the id")
	}
	for _, b := range w.plan.records[1:] {
		if bytes.Contains(b, []byte(other)) {
			t.Errorf("the id stands in %q", b)
		}
	}
}

// A process that has not read the plan reports no id. An id that it generates may not be the run's.
func TestRunID_UnknownBeforePlanIsRead(t *testing.T) {
	w := newFixture(config("bfd"))
	run, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	if info := run.Info(); info.HasPlan || info.ID != "" {
		t.Errorf("%+v", info)
	}
}

// A fork has its own id and names its parent's; a repaired copy has the id of the original run.
func TestRunID_NewForForksKeptForRepairs(t *testing.T) {
	w, _ := flushed(t)
	h, old, err := w.fork(t, 4, "next", w.config)
	if err != nil || h.ID == old.ID || len(h.ID) != 32 || h.Parent.ID != old.ID || len(old.ID) != 32 {
		t.Errorf("id %q, parent %+v, of %q: %v", h.ID, h.Parent, old.ID, err)
	}
	w.plan.records[20] = nil
	d, err := maintenance.Inspect(t.Context(), w.plan, w.checkpoints, 0)
	if err != nil {
		t.Fatal(err)
	}
	next := newFixture(w.config)
	next.docs = w.docs
	if err := d.Copy(t.Context(), w.beginning(nil), "copy", next.beginning(&memLowWatermarks{docs: w.docs}),
		func(uint64) {}); err != nil {
		t.Fatal(err)
	}
	if e, err := planrecord.Decode(next.plan.records[0]); err != nil || e.(planrecord.Header).ID != old.ID {
		t.Errorf("%+v, %v", e, err)
	}
}
