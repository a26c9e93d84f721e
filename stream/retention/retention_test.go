package retention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/runstatetest"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/docstream"
	"loaderd/stream/retention"
)

func openDocuments(t *testing.T, s *stream.Store) *docstream.Log {
	t.Helper()
	l, err := docstream.Open(natstest.Context(t), s, docstream.Tokenization{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Runs returns the runs that read the document stream, and where the sealed ones end. It leaves out a run whose plan
// was deleted, an earlier run of the same name, and a run over an earlier stream of that name.
func TestRuns_ListsReadingRuns(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	openDocuments(t, store)
	wants := func(want ...retention.ReadingRun) {
		t.Helper()
		if have, err := retention.Runs(ctx, store); err != nil || !slices.Equal(have, want) {
			t.Errorf("runs are %v: %v, want %v", have, err, want)
		}
	}
	begin := func(run string) *retention.LowWatermarks {
		t.Helper()
		f := runstatetest.LowWatermarks(t, store, run)
		if _, err := f.Claim(ctx, 2, 1); err != nil {
			t.Fatal(err)
		}
		return f
	}
	wants()
	begin("b")
	if err := begin("a").RecordEnd(ctx, 2, 17); err != nil {
		t.Fatal(err)
	}
	wants(retention.ReadingRun{Run: "a", Sealed: true, End: 17}, retention.ReadingRun{Run: "b"})
	for _, run := range []string{"a", "b"} {
		if err := store.Own().JetStream().DeleteStream(ctx, "PLAN_"+run); err != nil {
			t.Fatal(err)
		}
	}
	wants()
	f := begin("a")
	wants(retention.ReadingRun{Run: "a"})
	if err := f.RecordEnd(ctx, 2, 3); err != nil {
		t.Fatal(err)
	}
	wants(retention.ReadingRun{Run: "a", Sealed: true, End: 3})
	if err := store.JetStream().DeleteStream(ctx, "DOCS"); err != nil {
		t.Fatal(err)
	}
	openDocuments(t, store)
	wants() // those runs read another stream
}

// TestPurge_KeepsDocumentsOfEveryRun checks that the lowest watermark of all runs counts, until the plan of its run is
// deleted.
func TestPurge_KeepsDocumentsOfEveryRun(t *testing.T) {
	defer retention.SetDeletedTimeout(300 * time.Millisecond)()
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	l := openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 100)...)
	a, b := runstatetest.LowWatermarks(t, store, "a"), runstatetest.LowWatermarks(t, store, "b")
	for _, f := range []*retention.LowWatermarks{a, b} {
		if first, err := f.Claim(ctx, 2, 1); err != nil || first != 1 {
			t.Fatal(first, err)
		}
	}
	released := func(f *retention.LowWatermarks, from, want uint64) {
		t.Helper()
		first, err := f.Advance(ctx, 2, from)
		if err != nil || first != want {
			t.Fatalf("release left documents from %d on: %v, want %d", first, err, want)
		}
		if have, err := l.State(ctx); err != nil || have.First != want {
			t.Fatalf("the stream begins at %d: %v, want %d", have.First, err, want)
		}
	}
	released(a, 60, 1)
	released(b, 30, 30)
	released(a, 60, 30)
	released(a, 40, 30) // it never falls
	if err := store.Own().JetStream().DeleteStream(ctx, "PLAN_b"); err != nil {
		t.Fatal(err)
	}
	released(a, 60, 30) // a missing plan does not count as deleted yet
	natstest.Eventually(t, "the floor of the plan that is gone does not count", func() bool {
		first, err := a.Advance(ctx, 2, 60)
		return err == nil && first == 60
	})
	released(a, 101, 101) // all of them
	natstest.Publish(t, store, natstest.Documents(101, 1)...)
	released(a, 101, 101)
	b = runstatetest.LowWatermarks(t, store, "b")
	if first, err := b.Register(ctx, 50); err != nil || first != 101 {
		t.Errorf("a run begins with documents from %d on: %v", first, err)
	}
	if first, err := b.Claim(ctx, 2, 50); err != nil || first != 101 {
		t.Errorf("a run claims documents from %d on: %v", first, err)
	}
}

// A plan that is created again without a record retains its predecessor's documents only for a while. A plan with
// records is a restored one.
func TestPurge_RecreatedPlanRetainsForLimitedTime(t *testing.T) {
	defer retention.SetBeginTimeout(300 * time.Millisecond)()
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 100)...)
	a, before := runstatetest.LowWatermarks(t, store, "a"), runstatetest.LowWatermarks(t, store, "b")
	if _, err := before.Claim(ctx, 70, 1); err != nil {
		t.Fatal(err)
	}
	if err := store.Own().JetStream().DeleteStream(ctx, "PLAN_b"); err != nil {
		t.Fatal(err)
	}
	now := runstatetest.LowWatermarks(t, store, "b")
	if _, err := runstatetest.LowWatermarks(t, store, "restored").Claim(ctx, 70, 50); err != nil {
		t.Fatal(err)
	}
	if err := store.Own().JetStream().DeleteStream(ctx, "PLAN_restored"); err != nil {
		t.Fatal(err)
	}
	if err := runstatetest.Open(t, store, "restored").Append(ctx, 0, []byte("header")); err != nil {
		t.Fatal(err)
	}
	if first, err := a.Advance(ctx, 2, 60); err != nil || first != 1 {
		t.Errorf("release left documents from %d on, %v, want 1", first, err)
	}
	natstest.Eventually(t, "the floor expires", func() bool {
		first, err := a.Advance(ctx, 2, 60)
		return err == nil && first == 50
	})
	if first, err := now.Register(ctx, 60); err != nil || first != 50 {
		t.Errorf("the run begins at %d, %v", first, err)
	}
	for name, err := range deposed(ctx, before, 71) {
		if !errors.Is(err, fault.ErrLeadershipLost) {
			t.Errorf("%s of the leader of the earlier plan: %v", name, err)
		}
	}
}

// deposed tries everything that a leader may do, for a term.
func deposed(ctx context.Context, f *retention.LowWatermarks, term uint64) map[string]error {
	_, claim := f.Claim(ctx, term, 1)
	_, release := f.Advance(ctx, term, 100)
	return map[string]error{"Claim": claim, "Release": release, "Ends": f.RecordEnd(ctx, term, 1)}
}

// A former leader releases nothing and records no end.
func TestLowWatermarks_LostLeadership(t *testing.T) {
	ctx := natstest.Context(t)
	srv := natstest.Start(t)
	store := srv.Store()
	l := openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 100)...)
	before, now := runstatetest.LowWatermarks(t, store, "run"), runstatetest.LowWatermarks(t, srv.OpenRemote(), "run")
	if _, err := before.Advance(ctx, 2, 10); err != nil {
		t.Fatal(err)
	}
	if first, err := now.Claim(ctx, 50, 1); err != nil || first != 10 {
		t.Fatalf("it needs documents from %d on: %v, want those that are not given up", first, err)
	}
	for name, err := range deposed(ctx, before, 2) {
		if !errors.Is(err, fault.ErrLeadershipLost) {
			t.Errorf("%s of the leader before: %v", name, err)
		}
	}
	if _, err := before.Register(ctx, 1); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("the run is begun again: %v", err)
	}
	if have, err := l.State(ctx); err != nil || have.First != 10 {
		t.Errorf("the stream begins at %d, %v", have.First, err)
	}
	if runs, err := retention.Runs(ctx, store); err != nil || len(runs) != 1 || runs[0].Sealed {
		t.Errorf("runs are %v, %v", runs, err)
	}
	if first, err := now.Advance(ctx, 50, 20); err != nil || first != 20 {
		t.Errorf("release left documents from %d on: %v", first, err)
	}
}

// A run that begins while another one purges, at any moment, has its documents or gets the first document that is
// left.
func TestBegin_DuringPurge(t *testing.T) {
	ctx := natstest.Context(t)
	for _, moment := range []string{"before", "between", "behind"} {
		store := natstest.Start(t).Store()
		l := openDocuments(t, store)
		natstest.Publish(t, store, natstest.Documents(1, 100)...)
		purging, beginning := runstatetest.LowWatermarks(t, store, "purging"),
			runstatetest.LowWatermarks(t, store, "beginning")
		var left uint64
		begins := func(now string) {
			t.Helper()
			var err error
			if moment != now {
				return
			}
			if left, err = beginning.Register(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
		begins("before")
		given, err := purging.Raise(ctx, 2, 60)
		if err != nil {
			t.Fatal(err)
		}
		begins("between")
		if _, err := purging.Purge(ctx, given); err != nil {
			t.Fatal(err)
		}
		begins("behind")
		state, err := l.State(ctx)
		if err != nil || state.First > max(left, 1) || (left == 60) != (moment != "before") {
			t.Errorf("%s: the run got documents from %d on, and the stream begins at %d, %v", moment, left,
				state.First, err)
		}
	}
}

// A watermark that is recorded while Release reads the other ones counts.
func TestBegin_WatermarkDuringPurgeCounts(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 100)...)
	for i := range 20 {
		var all sync.WaitGroup
		purging, beginning := runstatetest.LowWatermarks(t, store, fmt.Sprint("purging", i)),
			runstatetest.LowWatermarks(t, store, fmt.Sprint("beginning", i))
		var given, left uint64
		var errs [2]error
		all.Go(func() { given, errs[0] = purging.Raise(ctx, 2, uint64(2+i)) })
		all.Go(func() { left, errs[1] = beginning.Register(ctx, uint64(1+i)) })
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		if told := left > uint64(1+i); given > uint64(1+i) && !told {
			t.Fatalf("documents up to %d are given up, and a run begins with %d", given, 1+i)
		}
		if _, err := beginning.Claim(ctx, 2, 1000); err != nil {
			t.Fatal(err)
		}
	}
}

// A run that recorded its watermark and was killed before it began retains documents only for a while. A run that has
// begun retains them indefinitely.
func TestPurge_RunThatDidNotBeginRetainsForLimitedTime(t *testing.T) {
	const timeout = 300 * time.Millisecond
	defer retention.SetBeginTimeout(timeout)()
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	l := openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 100)...)
	begun := runstatetest.Open(t, store, "begun")
	all := map[string]*retention.LowWatermarks{}
	for run, lowWatermark := range map[string]uint64{"killed": 1, "begun": 30} {
		all[run] = runstatetest.LowWatermarks(t, store, run)
		if _, err := all[run].Register(ctx, lowWatermark); err != nil {
			t.Fatal(err)
		}
	}
	if err := begun.Append(ctx, 0, []byte("header")); err != nil {
		t.Fatal(err)
	}
	purging := runstatetest.LowWatermarks(t, store, "purging")
	first := func() uint64 {
		t.Helper()
		first, err := purging.Advance(ctx, 2, 60)
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	if have := first(); have != 1 {
		t.Errorf("documents are purged up to %d that a run needs which begins", have)
	}
	for began := time.Now(); time.Since(began) < 2*timeout; {
		if _, err := all["killed"].Register(ctx, 1); err != nil { // another attempt
			t.Fatal(err)
		}
		if have := first(); have != 1 {
			t.Fatalf("documents are purged up to %d that a run needs which begins again", have)
		}
	}
	natstest.Eventually(t, "the floor of the run that was killed expires", func() bool { return first() == 30 })
	if s, err := l.State(ctx); err != nil || s.First != 30 {
		t.Errorf("the stream begins at %d, %v", s.First, err)
	}
}
