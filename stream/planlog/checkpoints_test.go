package planlog_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/planlog"
)

func TestObjects(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.Within(t, time.Minute)
	open := func() *planlog.Checkpoints {
		t.Helper()
		o, err := planlog.OpenCheckpoints(ctx, s.Store(), "run")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := open()
	if list, err := o.List(ctx); err != nil || len(list) != 0 {
		t.Fatalf("empty store lists %v, %v", list, err)
	}
	if _, err := o.Get(ctx, "x"); !errors.Is(err, planlog.ErrNoCheckpoint) {
		t.Errorf("get of nothing: %v", err)
	}
	if err := o.Delete(ctx, "x"); err != nil {
		t.Errorf("delete of nothing: %v", err)
	}
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	contents := map[string][]byte{"step-1": data, "step-2": {}, "step 3/ü": []byte("three")}
	for _, name := range []string{"step-1", "step-2", "step 3/ü"} {
		if err := o.Put(ctx, name, contents[name]); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart()
	o = open()
	list, err := o.List(ctx)
	if err != nil || len(list) != 3 || list[0] != "step 3/ü" || list[2] != "step-1" {
		t.Fatalf("list %v, %v: want three, newest first", list, err)
	}
	for name, want := range contents {
		if got, err := o.Get(ctx, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("get %s: %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}
	if err := o.Put(ctx, "step-1", []byte("again")); err != nil {
		t.Fatal(err)
	}
	if got, err := o.Get(ctx, "step-1"); err != nil || string(got) != "again" {
		t.Errorf("get of what was replaced: %q, %v", got, err)
	}
	if err := o.Delete(ctx, "step-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Get(ctx, "step-1"); !errors.Is(err, planlog.ErrNoCheckpoint) {
		t.Errorf("get of what was deleted: %v", err)
	}
}

// An object of which a part is missing or different is an error, never a shorter or a wrong object.
func TestDamagedObjectIsRefused(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.Within(t, time.Minute)
	o, err := planlog.OpenCheckpoints(ctx, s.Store(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Put(ctx, "checkpoint", make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	raw, err := s.Store().JetStream().Stream(ctx, "OBJ_CHECKPOINTS_run")
	if err != nil {
		t.Fatal(err)
	}
	part, err := raw.GetMsg(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.DeleteMsg(ctx, 8); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store().JetStream().PublishMsg(ctx, &nats.Msg{Subject: part.Subject, Data: bytes.Repeat([]byte{1}, len(part.Data))}); err != nil {
		t.Fatal(err)
	}
	if got, err := o.Get(ctx, "checkpoint"); !errors.Is(err, jetstream.ErrDigestMismatch) {
		t.Errorf("got %d bytes, error %v, want %v", len(got), err, jetstream.ErrDigestMismatch)
	}
}

// Checkpoints are larger than the messages of a server for small documents.
func TestObjectsOfASmallServer(t *testing.T) {
	srv := natstest.Start(t, func(c *stream.Config) { c.MaxDocument = 32 << 10 })
	o, err := planlog.OpenCheckpoints(natstest.Context(t), srv.Store(), "run")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("checkpoint"), 20<<10)
	if err := o.Put(natstest.Context(t), "x", data); err != nil {
		t.Fatal(err)
	}
	if have, err := o.Get(natstest.Context(t), "x"); err != nil || !bytes.Equal(have, data) {
		t.Errorf("%d bytes, %v", len(have), err)
	}
}
