package runadmin_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/natstest"
	"loaderd/internal/runadmin"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
	"loaderd/stream"
	"loaderd/stream/daemonbus"
	"loaderd/stream/lease"
	"loaderd/stream/runstate"
)

// daemon runs a daemon's part in a run that several daemons may serve. stop returns the error of Serve.
func daemon(t *testing.T, store *stream.Store, name string) (r *loader.Run, stop func() error) {
	t.Helper()
	ctx := natstest.Context(t)
	e := edges(t, store, "run")
	leads, err := runstate.NewElector(ctx, store, "run", lease.NewLeaderInfo(name, 1))
	if err != nil {
		t.Fatal(err)
	}
	e.Elector, e.Bus, e.Daemon = leads, daemonbus.New(store, "run"), name
	r, err = loader.Open(ctx, "run", config("bfd"), backend.Options{Ahead: 4, CacheBytes: 1 << 20,
		StallTimeout:    time.Minute,
		CheckpointSteps: 4}, e)
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- r.Serve(serving) }()
	return r, func() error {
		end()
		return errors.Join(<-served, leads.Close())
	}
}

// A process that responds to the daemons' requests and sends messages in their names stops none of them: the run
// continues to its end.
func TestForgery_MessagesDoNotStopDaemons(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	want := serve(t, store, "undisturbed", config("bfd"))
	evil := store.Conn()
	answers := []string{`{"at":0,"error":{"reason":"RUN_FAILED","message":"planned by process 666 on evil"}}`, `rubbish`,
		``, `{"id":"x","host":"evil","pid":666}`}
	n := 0
	sub, err := evil.Subscribe(stream.ServiceSubject+".>", func(m *nats.Msg) {
		if m.Reply != "" {
			_ = m.Respond([]byte(answers[n%len(answers)]))
			n++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	first, stopFirst := daemon(t, store, "first")
	read(t, first, 0, 2)
	second, stopSecond := daemon(t, store, "second")
	for _, word := range []string{"rubbish",
		`{"daemon":"evil","lead":{"steps":1099511627776,"wanted":1099511627776},"at":1099511627776,"oldest":1099511627776}`,
		`{"daemon":"evil","demand":{"jobs":{"a":{"job":"a","step":18446744073709551615}},"furthest":18446744073709551615}}`,
		`{"daemon":"first","left":true}`} {
		for _, subject := range []string{".word.run", ".ask.run", ".freed.run"} {
			if err := evil.Publish(stream.ServiceSubject+subject, []byte(word)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := evil.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	if have := read(t, second, 0, 1<<20); !reflect.DeepEqual(have, want) {
		t.Errorf("%d steps differ from %d", len(have), len(want))
	}
	if have := read(t, first, 0, 1<<20); !reflect.DeepEqual(have, want) {
		t.Errorf("%d steps differ from %d", len(have), len(want))
	}
	for _, stop := range []func() error{stopFirst, stopSecond} {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// A process that responds for a dead daemon does not keep its lease: only the record counts, which is no longer
// renewed.
func TestForgery_ResponseDoesNotRenewLease(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	serve(t, store, "run", config("bfd"))
	gone := lease.NewLeaderInfo("evil", 666)
	kv, err := store.Own().JetStream().KeyValue(ctx, "loaderd_leads")
	if err != nil {
		leads, openErr := runstate.NewElector(ctx, store, "other", lease.NewLeaderInfo("here", 1))
		if openErr != nil {
			t.Fatal(openErr)
		}
		defer leads.Close()
		if kv, err = store.Own().JetStream().KeyValue(ctx, "loaderd_leads"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kv.PutString(ctx, "run", `{"id":"`+gone.ID+`","host":"evil","pid":666}`); err != nil {
		t.Fatal(err)
	}
	sub, err := store.Own().Conn().Subscribe(stream.ServiceSubject+".alive."+gone.ID, func(m *nats.Msg) {
		_ = m.Respond(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	d, err := runadmin.Inspect(ctx, store, "run", lease.NewLeaderInfo("here", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Five random bytes, or a record that looks valid, in the plan of a run with a leader: the run stops with an error
// that names the record, no daemon can start on it, and the copy that repair creates continues with the same steps.
func TestForgery_RepairRemovesForgedRecord(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	want := serve(t, store, "undisturbed", config("bfd"))
	for i, forged := range [][]byte{[]byte("hello"), planrecord.Encode(planrecord.SealSource{Arrival: 60, Last: 60}),
		planrecord.Encode(planrecord.Commit{Job: "trainer", Step: 1 << 40})} {
		name := []string{"a", "b", "c"}[i]
		served, goOn := begun(t, store, name)
		if _, err := store.Own().JetStream().Publish(ctx, "plan."+name, forged); err != nil {
			t.Fatal(err)
		}
		goOn()
		if err := <-served; err == nil || !strings.Contains(err.Error(), "PLAN_FOREIGN: record ") {
			t.Errorf("%q: Serve = %v", forged, err)
		}
		if _, err := loader.Open(ctx, name, config("bfd"), backend.Options{Ahead: 4, StallTimeout: time.Minute},
			edges(t, store, name)); err == nil ||
			!strings.Contains(err.Error(), "loaderd run repair") {
			t.Errorf("%q: Open = %v", forged, err)
		}
		d, err := runadmin.Inspect(ctx, store, name, lease.NewLeaderInfo("here", 1), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Copy(ctx, name+"-copy", func(uint64) {}); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if have := serve(t, store, name+"-copy", config("bfd")); !reflect.DeepEqual(have, want) {
			t.Errorf("%q: %d steps of the copy differ from %d of the run", forged, len(have), len(want))
		}
	}
}

// begun returns a run that has planned only as far as its first readers required, until goOn reads it to its end with
// another reader. served receives the error of Serve.
func begun(t *testing.T, store *stream.Store, run string) (served chan error, goOn func()) {
	t.Helper()
	ctx := natstest.Context(t)
	r, err := loader.Open(ctx, run, config("bfd"), backend.Options{Ahead: 1, CacheBytes: 1 << 20,
		StallTimeout: time.Minute},
		edges(t, store, run))
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	read(t, r, 0, 2)
	reader, err := r.Join(state.RankID{World: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return served, func() {
		go func() {
			defer reader.Close()
			for {
				if _, err := reader.Next(ctx); err != nil {
					return
				}
			}
		}()
	}
}
