package runadmin_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/runadmin"
	"loaderd/internal/runstatetest"
	"loaderd/loader"
	"loaderd/loader/maintenance"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/lease"
	"loaderd/stream/planlog"
	"loaderd/stream/runstate"
)

// list returns the result of List in words.
func list(t *testing.T, store *stream.Store) (words []string) {
	t.Helper()
	all, err := runadmin.List(natstest.Context(t), store)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		var of runadmin.SourceInfo
		if len(r.Sources) > 0 {
			of = r.Sources[0]
		}
		line := fmt.Sprintf("%s of %s is %s with %d steps", r.Run, of.Stream, r.State, r.Steps)
		if of.SealedAt != 0 {
			line += fmt.Sprintf(", sealed at %d", of.SealedAt)
		}
		if r.Committed != nil {
			line += fmt.Sprintf(", committed %d", *r.Committed)
		}
		if of.LowWatermark != nil {
			line += fmt.Sprintf(", low watermark %d", *of.LowWatermark)
		}
		if r.Leader != nil {
			line += fmt.Sprintf(", led by %s (%v)", r.Leader.Host, r.Leader.Responds)
		}
		words = append(words, line)
		if r.State != runadmin.Remainder && (r.PlanBytes == 0 && r.State != runadmin.NotBegun ||
			time.Since(r.Begun) > time.Hour) {
			t.Errorf("%+v", r)
		}
	}
	return words
}

func wantList(t *testing.T, store *stream.Store, want ...string) {
	t.Helper()
	if have := list(t, store); !slices.Equal(have, want) {
		t.Errorf("List finds\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// goesOn starts a run, reads eight steps of it, calls f and stops the run.
func goesOn(t *testing.T, store *stream.Store, run string, f func(context.Context, *loader.Run)) {
	t.Helper()
	r, stop := start(t, store, run, config("bfd"))
	defer stop()
	read(t, r, 0, 8)
	f(natstest.Context(t), r)
}

// Runs in all states are listed with the content of their plans and low watermarks.
func TestList_RunsInEveryState(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	wantList(t, store)
	steps := len(serve(t, store, "whole", config("bfd")))
	// More steps than are planned ahead, so that the parent was sealed before.
	if _, _, err := runadmin.Fork(ctx, store, "whole", 8, "rest", config("concat"), tokenizing); err != nil {
		t.Fatal(err)
	}
	runstatetest.Open(t, store, "young")
	goesOn(t, store, "going", func(ctx context.Context, r *loader.Run) {
		if _, err := r.Commit(ctx, "trainer", 5); err != nil {
			t.Error(err)
		}
		if _, err := r.Commit(ctx, "other", 7); err != nil {
			t.Error(err)
		}
	})
	bad := runstatetest.Open(t, store, "bad")
	if err := bad.Append(ctx, 0, []byte("no header")); err != nil {
		t.Fatal(err)
	}
	leads, err := runstate.NewElector(ctx, store, "young", lease.NewLeaderInfo("here", 1))
	if err != nil {
		t.Fatal(err)
	}
	lead, err := leads.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	going, err := runadmin.Describe(ctx, store, "going")
	if err != nil || going.Steps < 8 {
		t.Errorf("%+v, %v", going, err)
	}
	whole := fmt.Sprintf("whole of DOCS is ended with %d steps, sealed at %d, low watermark 1", steps, documents)
	// as in its parent before that step
	rest := fmt.Sprintf("rest of DOCS is sealed with 0 steps, sealed at %d, low watermark 83", documents)
	wantList(t, store, "bad of  is unreadable with 0 steps",
		fmt.Sprintf("going of DOCS is live with %d steps, committed 5, low watermark 1", going.Steps), rest, whole,
		"young of  is not begun with 0 steps, led by here (true)")
	if err := leads.Close(); err != nil { // it does not respond, but holds the lease
		t.Fatal(err)
	}
	if have := list(t, store); !strings.HasSuffix(have[4], "led by here (false)") {
		t.Errorf("a leader that is gone: %s", have[4])
	}
	if err := lead.Close(); err != nil {
		t.Fatal(err)
	}
	if have := list(t, store); strings.Contains(have[4], "led") {
		t.Errorf("a released lease: %s", have[4])
	}
	if _, err := runadmin.Describe(ctx, store, "nobody"); !errors.Is(err, planlog.ErrNoPlan) {
		t.Errorf("of a run that is not there: %v", err)
	}
}

// A run is described the same from a checkpoint as from the first record.
func TestList_SameWithoutCheckpoints(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	goesOn(t, store, "run", func(ctx context.Context, r *loader.Run) {
		if _, err := r.Commit(ctx, "trainer", 3); err != nil {
			t.Error(err)
		}
		if _, err := r.Checkpoint(ctx); err != nil {
			t.Error(err)
		}
		if _, err := r.Commit(ctx, "trainer", 6); err != nil {
			t.Error(err)
		}
	})
	checkpoint, err := checkpoints.Newest(ctx, runstatetest.Open(t, store, "run"))
	if err != nil || len(checkpoint) == 0 {
		t.Fatalf("no checkpoint: %v", err)
	}
	with := list(t, store)
	if err := store.Own().JetStream().DeleteStream(ctx, "OBJ_CHECKPOINTS_run"); err != nil {
		t.Fatal(err)
	}
	if without := list(t, store); !slices.Equal(with, without) || !strings.Contains(with[0], "committed 6") {
		t.Errorf("with checkpoints %s, without %s", with, without)
	}
	s, err := maintenance.Summarize(ctx, runstatetest.Open(t, store, "run"), checkpoint)
	if err != nil || s.Commits["trainer"].Step != 6 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A removed run leaves nothing, and its name can be used for a new run.
func TestRemove_LeavesNothing(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	before := streams(t, store)
	holder := lease.NewLeaderInfo("here", 1)
	if _, err := runadmin.Remove(ctx, store, "nobody", holder); !errors.Is(err, planlog.ErrNoPlan) {
		t.Errorf("a run that is not there: %v", err)
	}
	steps := serve(t, store, "one", config("bfd"))
	serve(t, store, "two", config("bfd"))
	for _, want := range []runadmin.StreamWatermark{{Stream: "DOCS", Runs: 1, From: 1, By: "two"}, {Stream: "DOCS"}} {
		run := map[string]string{"two": "one", "": "two"}[want.By]
		removed, err := runadmin.Remove(ctx, store, run, holder)
		if err != nil || !removed.Plan || !removed.LowWatermark || !removed.Checkpoints ||
			!slices.Equal(removed.LowWatermarks, []runadmin.StreamWatermark{want}) {
			t.Errorf("removal of %s: %+v, %v", run, removed, err)
		}
		if _, err := runadmin.Remove(ctx, store, run, holder); !errors.Is(err, planlog.ErrNoPlan) {
			t.Errorf("removal of %s again: %v", run, err)
		}
	}
	wantList(t, store)
	for _, name := range streams(t, store) {
		if !slices.Contains(before, name) && !strings.HasPrefix(name, "KV_") {
			t.Errorf("stream %s is left", name)
		}
	}
	if again := serve(t, store, "one", config("bfd")); !reflect.DeepEqual(again, steps) {
		t.Errorf("a run of the same name has %d steps, the first had %d", len(again), len(steps))
	}
}

// A run that a live daemon leads is not removed.
func TestRemove_RefusesRunWithLeader(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	serve(t, store, "run", config("bfd"))
	was := list(t, store)
	leads, err := runstate.NewElector(ctx, store, "run", lease.NewLeaderInfo("here", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer leads.Close()
	lead, err := leads.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	led := new(lease.HeldError)
	if _, err := runadmin.Remove(ctx, store, "run", lease.NewLeaderInfo("there", 2)); !errors.As(err, &led) ||
		led.Leader.Host != "here" {
		t.Errorf("%v", err)
	}
	if err := lead.Close(); err != nil {
		t.Fatal(err)
	}
	wantList(t, store, was...)
}

// The next removal finishes one that was interrupted after any of its steps. Meanwhile a new run of the name can
// start.
func TestRemove_FinishesInterruptedRemoval(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone []string
		left string
	}{
		{"behind the plan", []string{"PLAN_run"}, "run of  is remainder with 0 steps"},
		{"behind the checkpoints", []string{"PLAN_run", "OBJ_CHECKPOINTS_run"}, ""},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, began anew %v", tt.name, again), func(t *testing.T) {
				store, ctx := published(t), natstest.Context(t)
				steps := serve(t, store, "run", config("bfd"))
				for _, name := range tt.gone {
					if err := store.Own().JetStream().DeleteStream(ctx, name); err != nil {
						t.Fatal(err)
					}
				}
				if tt.left != "" {
					wantList(t, store, tt.left)
				}
				if again {
					if have := serve(t, store, "run", config("bfd")); !reflect.DeepEqual(have, steps) {
						t.Errorf("%d steps, want %d", len(have), len(steps))
					}
				}
				removed, err := runadmin.Remove(ctx, store, "run", lease.NewLeaderInfo("here", 1))
				if err != nil || removed.Plan != again || !removed.LowWatermark {
					t.Errorf("%+v, %v", removed, err)
				}
				wantList(t, store)
			})
		}
	}
}

func streams(t *testing.T, store *stream.Store) (names []string) {
	t.Helper()
	all := store.JetStream().StreamNames(natstest.Context(t))
	for name := range all.Name() {
		names = append(names, name)
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
