package loader_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// planRecord encodes a record of a plan as docs/reference/plan.md describes it.
func planRecord(kind byte, body []byte) []byte {
	b := append([]byte{'L', 'P', planrecord.FormatVersion, kind}, body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func commitRecord(job string, step uint64) []byte {
	b := binary.AppendUvarint(nil, step)
	return planRecord(5, append(binary.AppendUvarint(b, uint64(len(job))), job...))
}

// flushed returns a stopped run with a flush in the middle of its plan, and the batches read from it.
func flushed(t *testing.T) (*fixture, []*assembly.Batch) {
	t.Helper()
	w := newFixture(config("bfd"))
	w.options.Ahead = 2
	w.docs.lengths(someLengths(4, 60)...)
	run, stop := w.start(t)
	batches := read(t, run, state.RankID{World: 1}, 0, 4)
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.docs.lengths(someLengths(5, 300)...)
	batches = append(batches, read(t, run, state.RankID{World: 1}, 4, 26)...)
	if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 20); err != nil {
		t.Fatal(err)
	}
	batches = append(batches, read(t, run, state.RankID{World: 1}, 30, 6)...)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return w, batches
}

// flushAt returns the position of the flush record.
func (w *fixture) flushAt() int {
	return slices.IndexFunc(w.plan.records, func(b []byte) bool { return b[3] == 4 }) + 1
}

// A plan whose end was lost could lose a control and be planned differently than it was served. It is refused,
// because checkpoints show that it was longer.
func TestPlanTruncated_IsRefused(t *testing.T) {
	w, _ := flushed(t)
	whole := len(w.plan.records)
	for _, left := range []int{whole - 1, w.flushAt() - 1, 1} {
		w.plan.records = w.plan.records[:left]
		_, err := w.open(t)
		if reason(err) != fault.PlanTruncated || !strings.Contains(err.Error(), fmt.Sprintf("ends with record %d ", left)) ||
			!strings.Contains(err.Error(), fmt.Sprintf("once had record %d ", whole)) ||
			!strings.Contains(err.Error(), "loaderd run repair") {
			t.Errorf("Open of %d records of %d = %v", left, whole, err)
		}
		if len(w.plan.records) != left || len(w.checkpoints.data) == 0 {
			t.Error("something was changed")
		}
	}
}

// Checkpoints of an earlier run of the same name do not make a fork's or a copy's plan truncated.
func TestPlanTruncated_ForkIgnoresOldCheckpoints(t *testing.T) {
	w, _ := flushed(t)
	next := newFixture(w.config)
	next.docs = w.docs
	maps.Copy(next.checkpoints.data, w.checkpoints.data)
	h, _, err := w.fork(t, 8, "test", next.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := maintenance.CreateFork(t.Context(), next.beginning(&memLowWatermarks{docs: w.docs}), h); err != nil {
		t.Fatal(err)
	}
	if _, err := next.open(t); err != nil {
		t.Error(err)
	}
}

// Records at impossible positions are refused by every reader of the plan that reads them.
func TestPlan_RefusesRecordsOutOfPlace(t *testing.T) {
	sealed := func(t *testing.T) *fixture {
		w, _ := audited(t, "bfd")
		clear(w.checkpoints.data)
		return w
	}
	for name, spoil := range map[string]func(w *fixture){
		"an end with too few steps": func(w *fixture) {
			w.plan.records[len(w.plan.records)-1] = planRecord(6, binary.AppendUvarint(nil, 3))
		},
		"a commit beyond the plan": func(w *fixture) {
			w.plan.records = append(w.plan.records, commitRecord("trainer", 1e6))
		},
		"two ends": func(w *fixture) {
			w.plan.records = append(w.plan.records, w.plan.records[len(w.plan.records)-1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sealed(t)
			spoil(w)
			refused := func(what string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), "plan record") || !strings.Contains(err.Error(), "damaged") {
					t.Errorf("%s = %v", what, err)
				}
			}
			_, err := w.open(t)
			refused("Open", err)
			_, err = maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
				w.config.Tokenizer, nil)
			refused("Audit", err)
			_, _, err = w.fork(t, 2, "next", w.config)
			refused("Fork", err)
			err = maintenance.FindRows(t.Context(), w.plan, 3, func(*plan.Step, int, []packonline.Piece) error { return nil })
			refused("Find", err)
		})
	}
	t.Run("a commit beyond the plan amid it", func(t *testing.T) {
		w := sealed(t)
		w.plan.records = slices.Insert(w.plan.records, 5, commitRecord("trainer", 1e6))
		run, err := w.open(t)
		if err == nil {
			err = run.Serve(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), "plan record 6: job") {
			t.Errorf("Serve = %v", err)
		}
		if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
			w.config.Tokenizer, nil); err == nil || !strings.Contains(err.Error(), "plan record 6: job") {
			t.Errorf("Audit = %v", err)
		}
	})
}

// repaired returns a fixture with the repaired copy of a world's damaged plan.
func repaired(t *testing.T, w *fixture, d maintenance.Damage) *fixture {
	t.Helper()
	next := newFixture(w.config)
	next.docs, next.options = w.docs, w.options
	if err := d.Copy(t.Context(), w.beginning(nil), "copy", next.beginning(&memLowWatermarks{docs: w.docs}),
		func(uint64) {}); err != nil {
		t.Fatal(err)
	}
	return next
}

// A damaged plan is copied up to the damage. A run that continues with the copy plans the same steps, unless a
// control was lost, which is reported.
func TestRepair_CopiesPlanUpToDamage(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(w *fixture)
		same   bool
		lost   []string
	}{
		"a step": {func(w *fixture) {
			at := w.flushAt() + 8
			w.plan.records[at] = w.plan.records[at][1:]
		}, true, []string{`commit of "trainer" before step 20`}},
		"the flush": {func(w *fixture) {
			at := w.flushAt() - 1
			w.plan.records[at] = nil
		}, false, []string{`commit of "trainer" before step 20`}},
		"a step before the flush": {func(w *fixture) {
			w.plan.records[2] = nil
		}, false, []string{"flush behind arrival 60", `commit of "trainer" before step 20`}},
		"the end, which was steps": {func(w *fixture) { w.plan.records = w.plan.records[:len(w.plan.records)-3] }, true, nil},
		"the end with the flush":   {func(w *fixture) { w.plan.records = w.plan.records[:w.flushAt()-1] }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, want := flushed(t)
			c.damage(w)
			before := slices.Clone(w.plan.records)
			d, err := maintenance.Inspect(t.Context(), w.plan, w.checkpoints, 0)
			if err != nil || d.Cause == "" || d.HasSameSteps() != c.same {
				t.Fatalf("%+v, %v, want same %v", d, err, c.same)
			}
			var lost []string
			for _, l := range d.LostControls {
				lost = append(lost, l.Description)
			}
			if !slices.Equal(lost, c.lost) {
				t.Errorf("lost are %q, want %q", lost, c.lost)
			}
			next := repaired(t, w, d)
			if !reflect.DeepEqual(w.plan.records, before) {
				t.Error("the damaged plan was changed")
			}
			run, err := loader.Open(t.Context(), "copy", next.config, next.options, next.edgesOf())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- run.Serve(ctx) }()
			if d.FormerSteps > d.Steps { // a trainer resumes at its step
				at := min(int(d.FormerSteps), len(want)) - 1
				if have := read(t, run, state.RankID{World: 1}, uint64(at), 1); c.same && !reflect.DeepEqual(have, want[at:at+1]) {
					t.Error("the step that the trainer resumes at differs")
				}
			}
			have := read(t, run, state.RankID{World: 1}, 0, len(want))
			if same := reflect.DeepEqual(have, want); c.same && !same {
				t.Error("the steps differ from those that were served")
			}
			if i := run.Info(); !slices.Equal(i.FormerNames, []string{"test"}) || i.Run != "copy" {
				t.Errorf("info is %+v", i)
			}
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs},
				Plan: next.plan}, next.config.Tokenizer, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// An incomplete copy is not started, and the same command completes it.
func TestRepair_CompletesInterruptedCopy(t *testing.T) {
	w, _ := flushed(t)
	w.plan.records[20] = nil
	d, err := maintenance.Inspect(t.Context(), w.plan, w.checkpoints, 0)
	if err != nil || d.Records != 20 {
		t.Fatalf("%+v, %v", d, err)
	}
	next := repaired(t, w, d)
	whole := slices.Clone(next.plan.records)
	for left := range whole {
		next.plan.records = slices.Clone(whole[:left])
		clear(next.checkpoints.data)
		if left > 0 {
			if _, err := loader.Open(t.Context(), "copy", next.config, next.options,
				next.edgesOf()); reason(err) != fault.PlanTruncated || !strings.Contains(err.Error(), "broken off") {
				t.Errorf("Open of %d records = %v", left, err)
			}
		}
		if err := d.Copy(t.Context(), w.beginning(nil), "copy", next.beginning(&memLowWatermarks{docs: w.docs}),
			func(uint64) {}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(next.plan.records, whole) {
			t.Fatalf("begun again behind %d records it is another copy", left)
		}
	}
	if err := d.Copy(t.Context(), w.beginning(nil), "other", next.beginning(&memLowWatermarks{docs: w.docs}),
		func(uint64) {}); err == nil {
		t.Error("a plan was copied over another one")
	}
	if _, err := maintenance.Inspect(t.Context(), &memLog{records: [][]byte{nil, whole[1]}}, w.checkpoints,
		0); err == nil {
		t.Error("a plan without a header was inspected")
	}
	if d, err := maintenance.Inspect(t.Context(), next.plan, next.checkpoints, 0); err != nil || d.Cause != "" ||
		d.Records != 20 {
		t.Errorf("the copy is %+v, %v", d, err)
	}
}
