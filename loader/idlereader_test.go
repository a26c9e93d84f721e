package loader_test

import (
	"slices"
	"testing"
	"time"

	"loaderd/internal/testscale"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// A rank that joins and never reads blocks the other ranks of its job, and the purge, for Options.Silent and no
// longer. A rank that waits for a step, or requests one now and then, is not idle.
func TestIdleReader_BlocksOthersUntilTimeout(t *testing.T) {
	bubble(t, "never", func(t *testing.T) {
		w, _ := purging(config("concat"))
		w.options.StallTimeout, w.options.IdleReaderTimeout = 7*time.Second, time.Minute // their ends never coincide
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		run, _ := w.start(t)
		began := time.Now()
		reads, err := run.Join(state.RankID{Rank: 0, World: 2}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer reads.Close()
		never, err := run.Join(state.RankID{Rank: 1, World: 2}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer never.Close()
		steps, behind := 0, 0
		for steps < 20 {
			switch _, err := reads.Next(t.Context()); {
			case err == nil:
				steps++
			case reason(err) == fault.RankBehind:
				behind++
			default:
				t.Fatal(err)
			}
		}
		if took := time.Since(began); behind < 4 || took > 90*time.Second {
			t.Errorf("the other rank was held back %d times in %v", behind, took)
		}
		for range 2 {
			if _, err := never.Next(t.Context()); reason(err) != fault.IdleReader {
				t.Errorf("Next of the silent reader = %v", err)
			}
		}
		if err := <-never.Dropped(); reason(err) != fault.IdleReader {
			t.Errorf("it is dropped with %v", err)
		}
		if len(reads.Dropped()) > 0 || len(run.Stats().Readers) != 1 {
			t.Errorf("readers are %v", run.Stats().Readers)
		}
		if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 15); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return w.first() > 1 }) // the idle reader is at step 0
	})
	bubble(t, "waits", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout, w.options.IdleReaderTimeout = time.Hour, time.Minute
		run, _ := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		time.AfterFunc(10*time.Minute, func() { w.docs.lengths(slices.Repeat([]int{16}, 40)...) })
		if _, err := r.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "seldom", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.IdleReaderTimeout = time.Minute
		w.docs.lengths(slices.Repeat([]int{16}, 200)...)
		run, _ := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for range 10 {
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(50 * time.Second)
		}
	})
	bubble(t, "for ever", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout = 10 * time.Second
		w.docs.lengths(slices.Repeat([]int{16}, 40)...)
		run, _ := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		<-time.After(testscale.Of[time.Duration](2, 24) * time.Hour)
		if _, err := r.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
