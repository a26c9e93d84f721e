package loader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"loaderd/loader/follower"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

func TestAhead_BoundsPlannedSteps(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	run, _ := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	a, err := run.Join(state.RankID{Rank: 0, World: 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := run.Join(state.RankID{Rank: 1, World: 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // rank 1 requests no step: 1 requested step and 4 ahead
		if _, err := a.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := run.Info().Planned; n != 5 {
		t.Fatalf("%d steps are planned while a rank is stopped, want 5", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next = %v", err)
	}
	b.Close() // ranks that left do not limit the plan
	if _, err := a.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// With Ahead = 0, a step is planned when a reader requests it, and not before.
func TestAhead_ZeroPlansOnRequestOnly(t *testing.T) {
	w := newFixture(config("concat"))
	w.options.Ahead = 0
	w.docs.lengths(slices.Repeat([]int{16}, 100)...)
	run, _ := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for step := range uint64(3) {
		read(t, run, state.RankID{World: 1}, step, 1)
		if n := run.Info().Planned; n != step+1 {
			t.Fatalf("%d steps are planned, %d were asked for", n, step+1)
		}
	}
	if n := len(read(t, run, state.RankID{World: 1}, 0, 0)); n != 25 {
		t.Fatalf("%d steps, want 25", n)
	}
}

// A restart without a reader plans no steps: the plan stays within Ahead steps of the readers' requests.
func TestAhead_RestartsPlanNoFurtherSteps(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	for range 3 {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		run, stop = w.start(t)
		eventually(t, func() bool { return !run.Stats().Replaying })
		// the planning loop has processed a request
		if _, err := run.Commit(t.Context(), planrecord.DefaultJob, run.Info().Committed+1); err != nil {
			t.Fatal(err)
		}
		if n := run.Info().Planned; n != 4 {
			t.Fatalf("%d steps are planned after a restart without a reader, want 4", n)
		}
	}
	read(t, run, state.RankID{World: 1}, 0, 20)
}

// Jobs of one run do not limit each other, whatever their world sizes. The ranks of one job limit each other.
func TestAhead_LimitsRanksPerJob(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	run, _ := w.start(t)
	slow, err := run.Join(state.RankID{Job: "slow", Rank: 0, World: 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fast := make([]*follower.Reader, 2)
	for rank := range fast {
		if fast[rank], err = run.Join(state.RankID{Job: "fast", Rank: rank, World: 2}, 0); err != nil {
			t.Fatal(err)
		}
		defer fast[rank].Close()
	}
	for range 10 {
		for _, r := range fast {
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 5 { // rank 0 alone, 4 steps ahead of rank 1; the job has requested 10
		if _, err := fast[0].Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := fast[0].Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next = %v", err)
	}
	// A rank with another world size belongs to the same job and does not advance the plan.
	curious, err := run.Join(state.RankID{Job: "fast", World: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer curious.Close()
	planned := run.Info().Planned
	for range planned {
		if _, err := curious.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := curious.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next = %v", err)
	}
	if n := run.Info().Planned; n != planned {
		t.Fatalf("%d steps are planned, %d before", n, planned)
	}
}
