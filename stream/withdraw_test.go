package stream_test

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/server"
)

// A start that fails takes back the empty streams that it made, and nothing else.
func TestWithdraw(t *testing.T) {
	ctx := natstest.Context(t)
	srv := natstest.Start(t)
	before, err := srv.Store().PlanLog(ctx, "before") // empty, and of another start
	if err != nil {
		t.Fatal(err)
	}
	store := srv.Remote()
	openLog(t, store)
	for _, run := range []string{"before", "new"} {
		if _, err := store.PlanLog(ctx, run); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Objects(ctx, run); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Floors(ctx, run); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 1)...)
	if err := store.Withdraw(ctx); err != nil {
		t.Fatal(err)
	}
	var left []string
	for name := range store.JetStream().StreamNames(ctx).Name() {
		left = append(left, name)
	}
	slices.Sort(left)
	if want := []string{"DOCS", "PLAN_before"}; !slices.Equal(left, want) {
		t.Errorf("streams left are %v, want %v", left, want)
	}
	if _, err := before.Last(ctx); err != nil {
		t.Error(err)
	}
}

// A data folder can be looked at beside any daemon: the server that does it takes no port.
func TestOpenAlone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := natstest.Config(t)
	c.Listen = taken.Addr().String()
	store, err := stream.OpenAlone(natstest.Context(t), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	openLog(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 3)...)
	if url := store.ClientURL(); url != "" {
		t.Errorf("clients are told to connect to %s", url)
	}
	if _, err := stream.OpenAlone(natstest.Context(t), c, quiet()); !errors.Is(err, server.ErrFolderInUse) || server.HolderURL(c.Dir) != "" {
		t.Errorf("a second one: %v, at %q", err, server.HolderURL(c.Dir))
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	c.Listen = "127.0.0.1:0"
	listening := natstest.Open(t, c)
	defer listening.Close()
	if url := server.HolderURL(c.Dir); url != listening.ClientURL() || url == "" {
		t.Errorf("the folder is served at %s, it says %q", listening.ClientURL(), url)
	}
	checkCounted(t, openSource(t, openLog(t, listening), 1), 1, 3)
}

// A plan with a hole is read for what it has: the record that is gone is named, those behind it are there.
func TestReadDamaged(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	l, err := store.PlanLog(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(ctx, 0, []byte("a"), []byte("b"), []byte("c")); err != nil {
		t.Fatal(err)
	}
	js := store.JetStream()
	st, err := js.Stream(ctx, "PLAN_r")
	if err != nil {
		t.Fatal(err)
	}
	open := st.CachedInfo().Config
	if err := js.DeleteStream(ctx, "PLAN_r"); err != nil {
		t.Fatal(err)
	}
	open.DenyDelete, open.DenyPurge = false, false
	if st, err = js.CreateStream(ctx, open); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a", "b", "c"} {
		if _, err := js.Publish(ctx, "plan.r", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.DeleteMsg(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ReadLog(ctx, "r"); err == nil {
		t.Error("a plan with a hole was opened")
	}
	var damaged loader.PlanLog
	if damaged, err = store.ReadDamaged(ctx, "r"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for at, want := range map[uint64]string{1: "a", 2: "", 3: "c", 4: ""} {
		have, err := damaged.Get(ctx, at)
		if string(have) != want || errors.Is(err, stream.ErrNoRecord) != (want == "") {
			t.Errorf("record %d is %q, %v, want %q", at, have, err, want)
		}
	}
	if last, err := damaged.Last(ctx); last != 3 || err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("it ends at %d, %v", last, err)
	}
	if _, err := store.ReadDamaged(ctx, "nobody"); !errors.Is(err, stream.ErrNoPlan) {
		t.Errorf("no plan: %v", err)
	}
	if err := damaged.Append(ctx, 3, []byte("d")); err == nil {
		t.Error("a damaged plan took a record")
	}
}
