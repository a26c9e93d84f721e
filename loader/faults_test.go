package loader_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/backend"
	"loaderd/loader/maintenance"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// Documents published after the end of a run are not part of it, whichever checkpoint a later process starts from.
func TestEnd_ExcludesLaterDocuments(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(someLengths(4, 60)...)
	run, stop := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := len(read(t, run, state.RankID{World: 1}, 0, 0))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.docs.lengths(someLengths(5, 200)...)
		run, stop = w.start(t)
		eventually(t, func() bool { return !run.Stats().Replaying })
		if at, err := run.Seal(t.Context()); err != nil || at != 60 {
			t.Errorf("the run is sealed behind document %d: %v", at, err)
		}
		if have := len(read(t, run, state.RankID{World: 1}, 0, 0)); have != want {
			t.Errorf("%d steps, they were %d", have, want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// The same holds if the process was killed at any write around the end.
func TestEnd_KilledWhileEndingExcludesLaterDocuments(t *testing.T) {
	for _, stored := range []bool{false, true} {
		for k, alive := 0, false; !alive; k++ {
			w := newFixture(config("concat"))
			w.options.CheckpointSteps, w.options.Ahead = 1, 1
			w.docs.lengths(slices.Repeat([]int{16}, 6)...) // 1.5 steps
			life := &mortal{left: k, stored: stored}
			w.edges = func(e *backend.Backends) {
				e.Plan, e.Checkpoints = roomyLog{mortalLog{w.plan, life}}, mortalCheckpoints{w.checkpoints, life}
			}
			if run, err := w.open(t); err == nil {
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- run.Serve(ctx) }()
				if _, err := run.Seal(ctx); err == nil {
					if r, err := run.Join(state.RankID{World: 1}, 0); err == nil {
						for err == nil {
							_, err = r.Next(ctx)
						}
						alive = isEOF(err)
						r.Close()
					}
				}
				life.kill()
				cancel()
				<-served
			}
			w.edges = nil
			if !slices.ContainsFunc(w.plan.records, isSeal) {
				run, stop := w.start(t)
				if _, err := run.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			w.docs.lengths(someLengths(5, 200)...)
			for range 2 {
				run, stop := w.start(t)
				eventually(t, func() bool { return run.Info().Ended })
				if at, err := run.Seal(t.Context()); err != nil || at != 6 {
					t.Errorf("killed at store %d, stored %v: the run is sealed behind document %d: %v", k, stored, at, err)
				}
				if have := read(t, run, state.RankID{World: 1}, 0, 0); len(have) != 2 {
					t.Errorf("killed at store %d, stored %v: %d steps, want 2", k, stored, len(have))
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
				w.config.Tokenizer, nil); err != nil {
				t.Errorf("killed at store %d, stored %v: %v", k, stored, err)
			}
		}
	}
}

// The log may hold several controls after one document, with the steps of the first control between them.
func TestControls_SeveralAfterOneDocument(t *testing.T) {
	w := newFixture(config("concat"))
	w.options.CheckpointSteps = 0
	w.docs.lengths(someLengths(4, 60)...)
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	read(t, run, state.RankID{World: 1}, 0, 6)
	for _, control := range []func(context.Context) (uint64, error){run.Flush, run.Flush, run.Seal} {
		if at, err := control(t.Context()); err != nil || at != 60 {
			t.Fatalf("it takes effect behind document %d: %v", at, err)
		}
		// the audit waits for no further document
		if _, err := maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
			w.config.Tokenizer, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return run.Stats().Cursor == 60 && run.Stats().PoolPieces == 0 })
	}
	want := read(t, run, state.RankID{World: 1}, 0, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.docs.lengths(someLengths(5, 100)...)
	run, _ = w.start(t)
	if have := read(t, run, state.RankID{World: 1}, 0, 0); !reflect.DeepEqual(have, want) {
		t.Error("the steps differ after a restart")
	}
	eventually(t, func() bool { return !run.Stats().Replaying })
	if at, err := run.Seal(t.Context()); err != nil || at != 60 {
		t.Errorf("the run is sealed behind document %d: %v", at, err)
	}
}

// A damaged plan record stops the run, with the record's position in the error. Nothing but the leader's term is
// appended before that.
func TestPlan_DamagedRecordStopsRun(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"a bit":     func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"cut short": func(b []byte) []byte { return b[:len(b)-5] },
		"empty":     func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(config("bfd"))
			w.docs.lengths(someLengths(4, 200)...)
			run, stop := w.start(t)
			read(t, run, state.RankID{World: 1}, 0, 12)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			clear(w.checkpoints.data)
			const at = 6 // the fifth step
			w.plan.records[at-1] = damage(slices.Clone(w.plan.records[at-1]))
			before := len(w.plan.records)
			run, err := w.open(t)
			if err == nil {
				err = run.Serve(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("plan record ", at)) ||
				!strings.Contains(err.Error(), "damaged") {
				t.Errorf("the run ended with: %v", err)
			}
			if n := len(w.plan.records) - before; n > 1 || n == 1 && !isTerm(w.plan.records[before]) {
				t.Errorf("%d records were appended to a damaged plan", n)
			}
			r, err := run.Join(state.RankID{World: 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for i := 0; err == nil; i++ {
				var s *plan.Step
				if s, err = r.Next(t.Context()); err == nil && s.Index != uint64(i) {
					t.Fatalf("step %d arrived where step %d should be", s.Index, i)
				}
			}
			if isEOF(err) {
				t.Error("a reader received that the run ended")
			}
		})
	}
}

func isSeal(record []byte) bool {
	e, err := planrecord.Decode(record)
	_, ok := e.(planrecord.SealSource)
	return err == nil && ok
}
