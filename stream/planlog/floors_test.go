package planlog_test

import (
	"slices"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/doclog"
	"loaderd/stream/planlog"
)

func openDocuments(t *testing.T, s *stream.Store) *doclog.Log {
	t.Helper()
	l, err := doclog.Open(natstest.Context(t), s, doclog.Tokenizing{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Runs tells who reads the document stream and where those end that were sealed: not a run whose plan is gone, nor what an earlier run
// of the same name, or a run over an earlier stream of that name, left behind.
func TestRunsThatReadTheStream(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	openDocuments(t, store)
	wants := func(want ...planlog.Reading) {
		t.Helper()
		if have, err := planlog.Runs(ctx, store); err != nil || !slices.Equal(have, want) {
			t.Errorf("runs are %v: %v, want %v", have, err, want)
		}
	}
	begin := func(run string) *planlog.Floors {
		t.Helper()
		if _, err := planlog.Open(ctx, store, run); err != nil {
			t.Fatal(err)
		}
		f, err := planlog.OpenFloors(ctx, store, run)
		if err == nil {
			err = f.Need(ctx, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	wants()
	begin("b")
	if err := begin("a").Ends(ctx, 17); err != nil {
		t.Fatal(err)
	}
	wants(planlog.Reading{Run: "a", Sealed: true, End: 17}, planlog.Reading{Run: "b"})
	for _, run := range []string{"a", "b"} {
		if err := store.JetStream().DeleteStream(ctx, "PLAN_"+run); err != nil {
			t.Fatal(err)
		}
	}
	wants()
	f := begin("a")
	wants(planlog.Reading{Run: "a"})
	if err := f.Ends(ctx, 3); err != nil {
		t.Fatal(err)
	}
	wants(planlog.Reading{Run: "a", Sealed: true, End: 3})
	if err := store.JetStream().DeleteStream(ctx, "DOCS"); err != nil {
		t.Fatal(err)
	}
	openDocuments(t, store)
	wants(planlog.Reading{Run: "a"})
}

// TestPurgeKeepsWhatAnyRunNeeds: the least floor of all runs counts, until the plan of the run that holds it is deleted.
func TestPurgeKeepsWhatAnyRunNeeds(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	l := openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 100)...)
	for run, floor := range map[string]uint64{"a": 60, "b": 30} {
		if _, err := planlog.Open(ctx, store, run); err != nil {
			t.Fatal(err)
		}
		f, err := planlog.OpenFloors(ctx, store, run)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Need(ctx, floor); err != nil {
			t.Fatal(err)
		}
	}
	a, err := planlog.OpenFloors(ctx, store, "a")
	if err != nil {
		t.Fatal(err)
	}
	purged := func(want uint64) {
		t.Helper()
		first, err := a.Purge(ctx)
		if err != nil || first != want {
			t.Fatalf("purge left documents from %d on: %v, want %d", first, err, want)
		}
		if have, err := l.State(ctx); err != nil || have.First != want {
			t.Fatalf("the stream begins at %d: %v, want %d", have.First, err, want)
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
	natstest.Publish(t, store, natstest.Documents(101, 1)...)
	purged(101)
}

// A run that recorded its floor and was killed before it began holds the documents for a while only; one that has begun holds them for ever.
func TestAFloorOfARunThatDidNotBegin(t *testing.T) {
	defer planlog.SetBeginPatience(300 * time.Millisecond)()
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	l := openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 100)...)
	floors := map[string]*planlog.Floors{}
	for run, floor := range map[string]uint64{"killed": 1, "begun": 30, "purging": 60} {
		plan, err := planlog.Open(ctx, store, run)
		if err != nil {
			t.Fatal(err)
		}
		if floors[run], err = planlog.OpenFloors(ctx, store, run); err == nil {
			err = floors[run].Need(ctx, floor)
		}
		if err == nil && run != "killed" {
			err = plan.Append(ctx, 0, []byte("header"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := func() uint64 {
		t.Helper()
		first, err := floors["purging"].Purge(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	if err := floors["killed"].Need(ctx, 1); err != nil { // it may still begin
		t.Fatal(err)
	}
	if have := first(); have != 1 {
		t.Errorf("documents are purged up to %d that a run needs which begins", have)
	}
	natstest.Soon(t, "the floor of the run that was killed expires", func() bool { return first() == 30 })
	if s, err := l.State(ctx); err != nil || s.First != 30 {
		t.Errorf("the stream begins at %d, %v", s.First, err)
	}
}
