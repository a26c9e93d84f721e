package loader_test

import (
	"reflect"
	"slices"
	"testing"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// purging returns a fixture whose run purges committed documents and caches no tokens.
func purging(c runconfig.Config) (*fixture, *memLowWatermarks) {
	w := newFixture(c)
	lowWatermarks := &memLowWatermarks{docs: w.docs}
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: w.docs, LowWatermarks: lowWatermarks} }
	w.options.Retention, w.options.CacheBytes = backend.RetentionPurge, 0
	return w, lowWatermarks
}

// first returns the oldest document that is not purged.
func (w *fixture) first() uint64 {
	w.docs.mu.Lock()
	defer w.docs.mu.Unlock()
	return w.docs.first
}

// The documents of committed steps are purged. All other steps, also after restarts, are those of an undisturbed run.
func TestRetention_PurgesCommittedDocuments(t *testing.T) {
	lengths := someLengths(9, 600)
	reference := newFixture(config("bfd"))
	reference.docs.lengths(lengths...)
	whole, _ := reference.start(t)
	if _, err := whole.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := read(t, whole, state.RankID{World: 1}, 0, 0)

	w, _ := purging(config("bfd"))
	w.docs.lengths(lengths...)
	run, stop := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for step := uint64(0); step < uint64(len(want)); step += 7 {
		have := read(t, run, state.RankID{World: 1}, step, min(7, len(want)-int(step)))
		if !reflect.DeepEqual(have, want[step:step+uint64(len(have))]) {
			t.Fatalf("steps from %d on differ", step)
		}
		if step%21 != 14 {
			continue
		}
		if _, err := run.Commit(t.Context(), planrecord.DefaultJob, step); err != nil {
			t.Fatal(err)
		}
		if step == 35 { // an uncommitted step is readable after a restart
			eventually(t, func() bool { return w.first() > 1 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			run, stop = w.start(t)
		}
		if again := read(t, run, state.RankID{World: 1}, step, 7); !reflect.DeepEqual(again, have) {
			t.Fatalf("steps from %d on differ when they are read again", step)
		}
	}
	total := uint64(len(want))
	if _, err := run.Commit(t.Context(), planrecord.DefaultJob, total); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return run.Info().Oldest > 30 })
	_, err := run.Join(state.RankID{World: 1}, 0)
	if reason(err) != fault.StepPurged {
		t.Fatalf("Join of a released step = %v", err)
	}
	oldest := run.Info().Oldest
	if have := read(t, run, state.RankID{World: 1}, oldest, 0); !reflect.DeepEqual(have, want[oldest:]) {
		t.Fatalf("steps from %d on, the oldest that is left, differ", oldest)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	oldest = run.Info().Oldest
	run, stop = w.start(t)
	eventually(t, func() bool { return !run.Stats().Replaying })
	if have := run.Info().Oldest; have < oldest { // the stop may be between a purge and its announcement
		t.Fatalf("after a restart step %d is the oldest, before it was %d", have, oldest)
	}
	if err := stop(); err != nil || !run.Info().Ended {
		t.Fatalf("a restart behind the end: %v", err)
	}
}

// The end of a run is stored with its low watermark once it is decided. It is stored again after each restart, whether
// or not the plan has reached the end.
func TestRetention_EndIsStoredWithLowWatermark(t *testing.T) {
	w, lowWatermarks := purging(config("bucket"))
	w.docs.lengths(someLengths(3, 600)...)
	run, stop := w.start(t)
	at, err := run.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := func() []uint64 {
		w.docs.mu.Lock()
		defer w.docs.mu.Unlock()
		return slices.Clone(lowWatermarks.ends)
	}
	if have := told(); !slices.Equal(have, []uint64{600}) || at != 600 {
		t.Fatalf("after the seal behind document %d the ends are %v", at, have)
	}
	for _, more := range []func(*loader.Run){func(*loader.Run) {}, func(r *loader.Run) {
		read(t, r, state.RankID{World: 1}, 0, 0)
	}, func(*loader.Run) {}} {
		more(run)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		before := len(told())
		run, stop = w.start(t)
		eventually(t, func() bool { return len(told()) == before+1 && told()[before] == 600 })
	}
	if err := stop(); err != nil || !run.Info().Ended {
		t.Fatalf("ended %v: %v", run.Info().Ended, err)
	}
}

// A process that is killed long after its only checkpoint restarts, whatever was purged. With splice it reads the
// packing hints of the documents that were buffered then.
func TestRetention_KeepsDocumentsOfCheckpoint(t *testing.T) {
	c := config("splice")
	c.Packing.Pool, c.Packing.MaxAge, c.Shuffle.Window = 40, 80, 0
	w, _ := purging(c)
	w.options.CheckpointSteps = 60
	w.docs.lengths(someLengths(3, 9000)...)
	run, stop := w.start(t)
	for step := range uint64(110) {
		read(t, run, state.RankID{World: 1}, step, 1)
		if _, err := run.Commit(t.Context(), planrecord.DefaultJob, step+1); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { // after the checkpoint is stored
		if err := run.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.first() > 1
	})
	w.checkpoints.mu.Lock()
	w.checkpoints.refuse = true // it is killed without another checkpoint
	w.checkpoints.mu.Unlock()
	_ = stop()
	run, stop = w.start(t)
	eventually(t, func() bool { return !run.Stats().Replaying })
	if err := stop(); err != nil {
		t.Fatalf("the run does not go on: %v", err)
	}
}

// Documents that a job, a reader or a restart may request are not purged.
func TestRetention_KeepsDocumentsOfJobsReadersAndRestarts(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, run *loader.Run, w *fixture){
		"nobody": nil,
		"another job": func(t *testing.T, run *loader.Run, _ *fixture) {
			if _, err := run.Commit(t.Context(), "slow", 0); err != nil {
				t.Fatal(err)
			}
		},
		"a reader": func(t *testing.T, run *loader.Run, _ *fixture) {
			if _, err := run.Join(state.RankID{Job: "evaluator", World: 2}, 0); err != nil {
				t.Fatal(err)
			}
		},
		"a reader amid a step": func(t *testing.T, run *loader.Run, w *fixture) {
			r, err := run.Join(state.RankID{Job: "evaluator", World: 2}, 0)
			if err != nil {
				t.Fatal(err)
			}
			w.docs.lengths(someLengths(9, 100)...)
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"no checkpoint": func(_ *testing.T, _ *loader.Run, w *fixture) {
			w.checkpoints.mu.Lock()
			defer w.checkpoints.mu.Unlock()
			w.checkpoints.refuse = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := purging(config("bfd"))
			run, _ := w.start(t)
			if hold != nil {
				hold(t, run, w)
			}
			w.docs.lengths(someLengths(9, 400)...)
			read(t, run, state.RankID{World: 1}, 0, 40)
			if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 40); err != nil {
				t.Fatal(err)
			}
			from, err := run.Needs(t.Context())
			if err != nil || (from == 1) != (hold != nil) {
				t.Fatalf("the run needs documents from %d on: %v", from, err)
			}
		})
	}
}
