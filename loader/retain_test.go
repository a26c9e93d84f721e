package loader_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
	"loaderd/loader/follower"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// A job that reads retains its documents until it commits, whatever other jobs have committed before. Without readers
// it does so for Options.Silent.
func TestRetention_JobRetainsUntilItCommits(t *testing.T) {
	late := state.RankID{Job: "late", World: 1}
	// begin makes a run of which job late reads 20 steps and another job reads and commits 40.
	begin := func(t *testing.T) (w *fixture, run *loader.Run, stop func() error, r *follower.Reader) {
		w, _ = purging(config("bfd"))
		w.options.IdleReaderTimeout = time.Minute
		run, stop = w.start(t)
		w.docs.lengths(someLengths(9, 400)...)
		r, err := run.Join(late, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		read(t, run, state.RankID{World: 1}, 0, 40)
		commit(t, run, planrecord.DefaultJob, 40)
		return w, run, stop, r
	}
	retains := func(t *testing.T, run *loader.Run, want bool) {
		t.Helper()
		synctest.Wait() // a checkpoint may still be on its way to the store
		from, err := run.Needs(t.Context())
		if err != nil || (from == 1) != want {
			t.Fatalf("the run needs documents from %d on: %v", from, err)
		}
	}
	bubble(t, "commits", func(t *testing.T) {
		_, run, _, r := begin(t)
		defer r.Close()
		retains(t, run, true)
		commit(t, run, "late", 10)
		if info := run.Info(); info.Commits["late"].Step != 10 || info.Committed != 10 {
			t.Fatalf("committed is %d of %v", info.Committed, info.Commits)
		}
		retains(t, run, false)
		if err := run.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again := read(t, run, late, 10, 5); len(again) != 5 {
			t.Fatalf("%d steps behind the commit", len(again))
		}
		commit(t, run, "another", 5) // a job that has not read starts at the committed step
		if at := run.Info().Commits["another"]; at.Step != 10 {
			t.Fatalf("a job that has not read begins at %d", at)
		}
	})
	bubble(t, "is gone", func(t *testing.T) {
		_, run, _, r := begin(t)
		r.Close()
		<-time.After(58 * time.Second)
		retains(t, run, true)
		<-time.After(4 * time.Second)
		retains(t, run, false)
	})
	bubble(t, "leaves", func(t *testing.T) {
		_, run, _, r := begin(t)
		defer r.Close()
		commit(t, run, "late", 0)
		retains(t, run, true)
		if _, err := run.Leave(t.Context(), "late"); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		retains(t, run, false)
	})
	bubble(t, "connects again after a restart", func(t *testing.T) {
		w, _, stop, r := begin(t)
		r.Close()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		run, _ := w.start(t)
		<-time.After(5 * time.Second)
		if first := w.first(); first != 1 {
			t.Fatalf("document %d is the first one left before readers could connect", first)
		}
		r, err := run.JoinAs(t.Context(), late, 20, state.Client{Session: "s", Delivered: 20, PriorSteps: 20})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		<-time.After(20 * time.Second)
		if first := w.first(); first != 1 {
			t.Fatalf("document %d is the first one left", first)
		}
		commit(t, run, "late", 20)
		<-time.After(5 * time.Second)
		if first := w.first(); first == 1 {
			t.Fatal("no document is released")
		}
	})
}

// A job retains its documents after its daemon stops, until it reads from another daemon and commits.
func TestRetention_JobRetainsAfterItsDaemonStops(t *testing.T) {
	bubble(t, "stops", func(t *testing.T) {
		w, _ := purging(config("bfd"))
		cluster := newTestCluster()
		w.options.StallTimeout = 10 * time.Second
		w.docs.lengths(someLengths(9, 400)...)
		first, _ := w.join(t, cluster, "first")
		eventually(t, first.IsLeader)
		second, stop := w.join(t, cluster, "second")
		eventually(t, func() bool { return len(second.Info().Daemons) == 2 })
		read(t, second, state.RankID{Job: "late", World: 1}, 0, 20)
		read(t, first, state.RankID{World: 1}, 0, 40)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		commit(t, first, planrecord.DefaultJob, 40)
		<-time.After(30 * time.Second)
		if from, err := first.Needs(t.Context()); err != nil || from != 1 {
			t.Fatalf("the run needs documents from %d on: %v", from, err)
		}
		commit(t, first, "late", 15)
		if at := first.Info().Commits["late"]; at.Step != 15 {
			t.Errorf("the job begins at %d", at)
		}
	})
}

func commit(t *testing.T, run *loader.Run, job string, step uint64) {
	t.Helper()
	if _, err := run.Commit(t.Context(), job, step); err != nil {
		t.Fatal(err)
	}
}

// After a restart a trainer continues with steps that it received before, and reports each that it takes. Its reports
// count as sent steps until it has a stream.
func TestRun_ReportsAfterRestartCountAsSent(t *testing.T) {
	bubble(t, "restart", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		run, stop := w.start(t)
		read(t, run, state.RankID{Job: "a", World: 1}, 0, 12)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		run, _ = w.start(t)
		eventually(t, func() bool { return !run.Stats().Replaying })
		check := func(job string, taken, want uint64) {
			t.Helper()
			run.RecordConsumption(state.RankID{Job: job, World: 1}, state.Consumption{Session: "s", Delivered: taken})
			if sent := run.SentSteps(t.Context(), want, func(x string) bool { return x == job }); sent != want {
				t.Errorf("job %s was sent %d steps after a report of %d, want %d", job, sent, taken, want)
			}
		}
		check("a", 9, 9)
		check("a", 11, 11)
		check("a", 10, 11)
		check("b", 1<<40, run.Info().Planned)
		read(t, run, state.RankID{Job: "d", World: 1}, 2, 3)
		check("d", 9, 5)
		<-time.After(11 * time.Minute)
		check("c", 5, 0)
	})
}

// All daemons report how many steps each job was sent, also after the job's readers have closed.
func TestRun_ReportsStepsSentPerJob(t *testing.T) {
	w, cluster := newFixture(config("concat")), newTestCluster()
	w.options.StallTimeout = 10 * time.Second
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	first, _ := w.join(t, cluster, "first")
	second, _ := w.join(t, cluster, "second")
	eventually(t, func() bool { return len(first.Info().Daemons) == 2 && len(second.Info().Daemons) == 2 })
	// Without readers, nothing further is planned.
	eventually(t, func() bool { return first.Info().Planned >= uint64(w.options.Ahead) })
	r, err := first.Join(state.RankID{Job: "a", World: 1}, 5)
	if err != nil {
		t.Fatal(err)
	}
	named := func(names ...string) func(string) bool {
		return func(job string) bool { return slices.Contains(names, job) }
	}
	check := func(when string, want uint64) {
		t.Helper()
		for _, run := range []*loader.Run{first, second} {
			if sent := run.SentSteps(t.Context(), want, named("a", "b")); sent != want {
				t.Errorf("%s: sent %d, want %d", when, sent, want)
			}
			if sent := run.SentSteps(t.Context(), 0, named("c", "")); sent != 0 {
				t.Errorf("%s: others were sent %d", when, sent)
			}
		}
	}
	check("when it has opened its stream", 5)
	for range 3 {
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	check("when it has read 3 steps", 8)
	if len(read(t, second, state.RankID{Job: "b", World: 1}, 7, 5)) != 5 {
		t.Fatal("too few steps")
	}
	check("when another job has read on", 12)
	if sent := first.SentSteps(t.Context(), 13, named("a", "b")); sent != 12 {
		t.Errorf("sent %d of a step that was not", sent)
	}
}
