package stream_test

import (
	"testing"

	"loaderd/internal/natstest"
)

// TestPurgeKeepsWhatAnyRunNeeds: the least floor of all runs counts, until the plan of the run that holds it is deleted.
func TestPurgeKeepsWhatAnyRunNeeds(t *testing.T) {
	ctx := testContext(t)
	store := natstest.Start(t).Store()
	l := openLog(t, store)
	publishAll(t, store, counted(1, 100)...)
	for run, floor := range map[string]uint64{"a": 60, "b": 30} {
		if _, err := store.PlanLog(ctx, run); err != nil {
			t.Fatal(err)
		}
		f, err := store.Floors(ctx, run)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Need(ctx, floor); err != nil {
			t.Fatal(err)
		}
	}
	a, err := store.Floors(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	purged := func(want uint64) {
		t.Helper()
		first, err := a.Purge(ctx)
		if err != nil || first != want {
			t.Fatalf("purge left documents from %d on: %v, want %d", first, err, want)
		}
		if have, err := l.First(ctx); err != nil || have != want {
			t.Fatalf("the stream begins at %d: %v, want %d", have, err, want)
		}
	}
	purged(30)
	purged(30)
	if err := store.JetStream().DeleteStream(ctx, "PLAN_b"); err != nil {
		t.Fatal(err)
	}
	purged(60)
	if err := a.Need(ctx, 101); err != nil { // all of them
		t.Fatal(err)
	}
	purged(101)
	publishAll(t, store, counted(101, 1)...)
	purged(101)
}
