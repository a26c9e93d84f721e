package loader_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

func isTerm(record []byte) bool {
	e, err := planrecord.Decode(record)
	_, ok := e.(planrecord.Term)
	return err == nil && ok
}

// terms returns the positions of the term records, and their daemons.
func (w *fixture) terms() (at []uint64, who []string) {
	w.plan.mu.Lock()
	defer w.plan.mu.Unlock()
	for i, b := range w.plan.records {
		if e, err := planrecord.Decode(b); err == nil {
			if term, ok := e.(planrecord.Term); ok {
				at, who = append(at, uint64(i+1)), append(who, term.Daemon)
			}
		}
	}
	return at, who
}

// Each term begins with a term record, after all records of the plan including its end.
func TestTerm_BeginsWithTermRecord(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(3, 60)...)
	var want []string
	for _, name := range []string{"host-a/1", "", "host-b/7", "host-b/7"} {
		w.edges = func(e *backend.Backends) { e.Daemon = name }
		before, _ := w.plan.Last(t.Context())
		run, stop := w.start(t)
		if _, err := run.Seal(t.Context()); err != nil { // recorded once; the run ends in the second process
			t.Fatal(err)
		}
		if want = append(want, name); len(want) > 1 {
			read(t, run, state.RankID{World: 1}, 0, 0)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		at, who := w.terms()
		if !slices.Equal(who, want) || at[len(at)-1] != max(before, 1)+1 {
			t.Fatalf("the terms begin at %v, of %q, want those of %q, the last at %d", at, who, want, max(before, 1)+1)
		}
		if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
			w.config.Tokenizer, nil); err != nil {
			t.Error(err)
		}
		if d, err := maintenance.Inspect(t.Context(), w.plan, w.checkpoints, 0); err != nil || d.Cause != "" {
			t.Errorf("%+v, %v", d, err)
		}
	}
	w.edges = func(e *backend.Backends) { e.Daemon = "no\nname" }
	if _, err := w.open(t); err == nil {
		t.Error("a name that no record can have was taken")
	}
}

// A new leader deposes the previous leader, even if the new one has nothing to append.
func TestTerm_NewLeaderReplacesPrevious(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(3, 200)...)
	first, stopFirst := w.start(t)
	have := read(t, first, state.RankID{World: 1}, 0, 8)
	second, stopSecond := w.start(t)
	eventually(t, func() bool { return !second.Stats().Replaying })
	if _, err := first.Commit(t.Context(), planrecord.DefaultJob, 2); reason(err) != fault.NotLeading {
		t.Errorf("a commit with the leader before: %v", err)
	}
	if err := stopFirst(); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("the leader before ended with %v", err)
	}
	again := read(t, second, state.RankID{World: 1}, 0, 20)
	if len(again) != 20 || !slices.Equal(tokensOf(t, again[7]), tokensOf(t, have[7])) {
		t.Error("the steps differ")
	}
	if err := stopSecond(); err != nil {
		t.Error(err)
	}
}

// A leader that waits at its Ahead limit while another leader continues, and is stopped later, stores and deletes
// nothing.
func TestTerm_LateStoppedLeaderStoresNothing(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(3, 2000)...)
	first, stopFirst := w.start(t)
	read(t, first, state.RankID{World: 1}, 0, 2)
	second, stopSecond := w.start(t)
	read(t, second, state.RankID{World: 1}, 0, 90)
	if err := stopSecond(); err != nil {
		t.Fatal(err)
	}
	want, records := w.checkpoints.names(), len(w.plan.records)
	_ = stopFirst()
	if have := w.checkpoints.names(); len(want) != 3 || !slices.Equal(have, want) || len(w.plan.records) != records {
		t.Errorf("stored are %v, want %v", have, want)
	}
	third, _ := w.start(t)
	read(t, third, state.RankID{World: 1}, 88, 5)
}

// Every sign of another leader ends the term with that reason.
func TestTerm_EndsOnSignOfAnotherLeader(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, run *loader.Run, w *fixture, lowWatermarks *memLowWatermarks){
		"a checkpoint": func(t *testing.T, run *loader.Run, w *fixture, _ *memLowWatermarks) {
			if _, err := w.checkpoints.Claim(t.Context(), 1000, false); err != nil {
				t.Fatal(err)
			}
			if _, err := run.Checkpoint(t.Context()); err == nil {
				t.Error("the checkpoint was stored")
			}
		},
		"a release": func(t *testing.T, run *loader.Run, w *fixture, lowWatermarks *memLowWatermarks) {
			read(t, run, state.RankID{World: 1}, 0, 40)
			if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 40); err != nil {
				t.Fatal(err)
			}
			if _, err := lowWatermarks.Claim(t.Context(), 1000, 1); err != nil {
				t.Fatal(err)
			}
			if err := run.Release(t.Context()); !errors.Is(err, fault.ErrLeadershipLost) {
				t.Errorf("Release = %v", err)
			}
			time.Sleep(time.Minute) // the next periodic purge
			if w.first() != 1 {
				t.Errorf("documents before %d are purged", w.first())
			}
		},
		"the end": func(t *testing.T, run *loader.Run, _ *fixture, lowWatermarks *memLowWatermarks) {
			if _, err := lowWatermarks.Claim(t.Context(), 1000, 1); err != nil {
				t.Fatal(err)
			}
			_, _ = run.Seal(t.Context())
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, lowWatermarks := purging(config("bfd"))
				w.options.PurgeDelay = 10 * time.Second
				w.docs.lengths(someLengths(3, 400)...)
				run, stop := w.start(t)
				eventually(t, func() bool { return run.Info().Planned == 4 })
				act(t, run, w, lowWatermarks)
				synctest.Wait() // the term has ended before the stop
				if err := stop(); reason(err) != fault.NotLeading || !errors.Is(err, fault.ErrLeadershipLost) {
					t.Errorf("Serve = %v", err)
				}
			})
		})
	}
}

// emptyLog appears empty, as a plan does on a lagging server.
type emptyLog struct{ *memLog }

func (emptyLog) Last(context.Context) (uint64, error) { return 0, nil }

// A process that takes an existing run for a new one does not change it.
func TestOpen_ExistingRunTakenForNewIsNotChanged(t *testing.T) {
	w, lowWatermarks := purging(config("bfd"))
	edges := w.edges
	w.docs.lengths(someLengths(3, 400)...)
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 40)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	stored, records, term := w.checkpoints.names(), slices.Clone(w.plan.records), lowWatermarks.term
	for _, fenced := range []bool{true, false} { // refused by the low watermark, or by the append of the header
		w.edges = func(e *backend.Backends) {
			edges(e)
			if e.Plan = (emptyLog{w.plan}); !fenced {
				e.Sources = onlySource{Documents: w.docs}
			}
		}
		run, err := w.open(t)
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Serve(t.Context()); reason(err) != fault.NotLeading {
			t.Errorf("Serve = %v", err)
		}
	}
	if have := w.checkpoints.names(); len(stored) < 2 || !slices.Equal(have, stored) ||
		!reflect.DeepEqual(w.plan.records, records) || lowWatermarks.term != term {
		t.Errorf("stored are %v, want %v", have, stored)
	}
}

// A new term starts from what another process has stored and purged since the run was opened.
func TestTerm_BeginsWithCurrentState(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		w, _ := purging(config("bfd"))
		w.docs.lengths(someLengths(3, 600)...)
		first, stopFirst := w.start(t)
		read(t, first, state.RankID{World: 1}, 0, 2)
		second, err := w.open(t)
		if err != nil {
			t.Fatal(err)
		}
		want := read(t, first, state.RankID{World: 1}, 0, 60)
		if sealed {
			if _, err := first.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			want = read(t, first, state.RankID{World: 1}, 0, 0)
		}
		if _, err := first.Commit(t.Context(), planrecord.DefaultJob, 50); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool {
			if err := first.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			return w.first() > 50
		})
		if err := stopFirst(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- second.Serve(ctx) }()
		eventually(t, func() bool { return !second.Stats().Replaying })
		if have := read(t, second, state.RankID{World: 1}, 50, len(want)-50); !reflect.DeepEqual(have, want[50:]) {
			t.Error("the steps differ")
		}
		if sealed != second.Info().Ended {
			t.Errorf("ended is %v", second.Info().Ended)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if _, err := second.Join(state.RankID{World: 1}, 0); reason(err) != fault.StepPurged &&
			reason(err) != fault.NotLeading {
			t.Errorf("Join of a released step = %v", err)
		}
	}
}

// A run starts over the leftovers of an earlier plan of its name, and is killed at any of its first writes. The next
// start succeeds and does not use the leftovers.
func TestNewRun_SucceedsAfterKilledStart(t *testing.T) {
	for left := range 5 {
		for _, stored := range []bool{false, true} {
			w := checkpointedEarly(t)
			w.plan = &memLog{}
			life := &mortal{left: left, stored: stored}
			w.edges = func(e *backend.Backends) {
				e.Plan, e.Checkpoints = roomyLog{mortalLog{w.plan, life}}, mortalCheckpoints{w.checkpoints, life}
			}
			w.docs.lengths(someLengths(2, 200)...)
			dying, err := w.open(t)
			if err != nil {
				t.Fatal(err)
			}
			if err := dying.Serve(t.Context()); !errors.Is(err, errKilled) {
				t.Errorf("killed at store %d: Serve = %v", left, err)
			}
			w.edges = nil
			run, stop := w.start(t)
			read(t, run, state.RankID{World: 1}, 0, 6)
			if err := stop(); err != nil {
				t.Errorf("after a death at store %d, stored %v: %v", left, stored, err)
			}
			if slices.Contains(w.checkpoints.names(), "step-00000000000000000000") {
				t.Errorf("after a death at store %d, stored %v, the checkpoint of the earlier run is left", left, stored)
			}
		}
	}
}
