package runadmin_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/natstest"
	"loaderd/internal/runadmin"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/stream"
	"loaderd/stream/daemonbus"
	"loaderd/stream/docstream"
	"loaderd/stream/lease"
)

var firstKey, secondKey = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

// keyFile creates a file with keys.
func keyFile(t *testing.T, keys ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "plan.key")
	if err := os.WriteFile(name, []byte(strings.Join(keys, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// keyed starts a server with documents, whose store has keys; with returns other stores on it.
func keyed(t *testing.T, keys ...string) (store *stream.Store, with func(keys ...string) *stream.Store) {
	t.Helper()
	srv := natstest.Start(t)
	with = func(keys ...string) *stream.Store {
		c := srv.OpenRemote().Config()
		if c.PlanKeyFile = ""; len(keys) > 0 {
			c.PlanKeyFile = keyFile(t, keys...)
		}
		s := natstest.Open(t, c)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	if _, err := docstream.Open(natstest.Context(t), srv.Store(), tokenizing); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, srv.Store(), natstest.Documents(1, documents)...)
	return with(keys...), with
}

// opened returns the error of a daemon that opens a run.
func opened(t *testing.T, store *stream.Store, run string) error {
	t.Helper()
	_, err := loader.Open(natstest.Context(t), run, config("bfd"), backend.Options{Ahead: 4, CacheBytes: 1 << 20,
		StallTimeout: time.Minute, CheckpointSteps: 4}, edges(t, store, run))
	return err
}

func reasonOf(err error) fault.Reason {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// A run with a key is the same run as without, but only for daemons and commands that have one of its keys. A daemon
// with a key cannot serve a run without one.
func TestPlanKey_RequiredForKeyedRun(t *testing.T) {
	store, with := keyed(t, firstKey)
	ctx, rotated, none, other := natstest.Context(t), with(secondKey, firstKey), with(), with(secondKey)
	want := serve(t, none, "plain", config("bfd"))
	goesOn(t, store, "run", func(context.Context, *loader.Run) {})
	if have := serve(t, rotated, "run", config("bfd")); !reflect.DeepEqual(have, want) {
		t.Errorf("%d steps with a key, %d without", len(have), len(want))
	}
	if err := opened(t, none, "run"); reasonOf(err) != fault.PlanMismatch ||
		!strings.Contains(err.Error(), "plan_key_file") {
		t.Errorf("without a key: %v", err)
	}
	if err := opened(t, store, "plain"); reasonOf(err) != fault.PlanMismatch ||
		!strings.Contains(err.Error(), "plan_key_file") {
		t.Errorf("a run without a key, with one: %v", err)
	}
	for what, s := range map[string]*stream.Store{"another key": other,
		"the first key, after the second has written": store} {
		if err := opened(t, s, "run"); reasonOf(err) != fault.PlanForeign {
			t.Errorf("with %s: %v", what, err)
		}
	}
	if seen, err := runadmin.Audit(ctx, rotated, "run", tokenizing, config("bfd").Tokenizer, nil); err != nil ||
		seen.Steps != uint64(len(want)) || !seen.Ended {
		t.Errorf("Audit = %+v, %v", seen, err)
	}
	forked, from, err := runadmin.Fork(ctx, rotated, "run", 3, "fork", config("bfd"), tokenizing)
	if err != nil || !forked.Keyed && !from.Keyed {
		t.Errorf("Fork = %+v, %v", forked, err)
	}
	serve(t, rotated, "fork", config("bfd"))
	if err := opened(t, none, "fork"); reasonOf(err) != fault.PlanMismatch {
		t.Errorf("the fork without a key: %v", err)
	}
	d, err := runadmin.Inspect(ctx, rotated, "plain", lease.NewLeaderInfo("here", 1), 6)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Copy(ctx, "copy", func(uint64) {}), d.Close()); err != nil {
		t.Fatal(err)
	}
	if have := serve(t, rotated, "copy", config("bfd")); !reflect.DeepEqual(have, want) {
		t.Errorf("%d steps of a copy that has got a key, want %d", len(have), len(want))
	}
	if err := opened(t, none, "copy"); reasonOf(err) != fault.PlanMismatch {
		t.Errorf("the copy without a key: %v", err)
	}
	for _, line := range list(t, rotated) {
		if !strings.Contains(line, " is ended ") {
			t.Error(line)
		}
	}
	if said := strings.Join(list(t, none), "\n"); strings.Count(said, "unreadable") != 3 ||
		!strings.Contains(said, "plain of DOCS is ended") {
		t.Errorf("without a key: %s", said)
	}
}

// Records that none of the daemons wrote are refused, with and without a leader, however valid they look. The
// repaired copy continues.
func TestPlanKey_RefusesForgedRecords(t *testing.T) {
	store, with := keyed(t, firstKey)
	ctx, want := natstest.Context(t), serve(t, with(), "plain", config("bfd"))
	goesOn(t, store, "whole", func(context.Context, *loader.Run) {})
	genuine, err := store.Own().JetStream().Stream(ctx, "PLAN_whole")
	if err != nil {
		t.Fatal(err)
	}
	taken := func(at uint64) *nats.Msg { // a record of another run, with its MAC
		m, err := genuine.GetMsg(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		return &nats.Msg{Data: m.Data, Header: nats.Header{"Loaderd-Mac": m.Header["Loaderd-Mac"]}}
	}
	record := func(e planrecord.Entry) *nats.Msg { return &nats.Msg{Data: planrecord.Encode(e)} }
	for name, forged := range map[string]*nats.Msg{"rubbish": {Data: []byte("hello")},
		"seal":   record(planrecord.SealSource{Arrival: 60, Last: 60}),
		"commit": record(planrecord.Commit{Job: "trainer", Step: 1}),
		"term":   record(planrecord.Term{Daemon: "evil"}), "note": record(planrecord.Foreign{Position: 2}),
		"other-run": taken(4),
		"wrong-code": {Data: planrecord.Encode(planrecord.SealSource{Arrival: 60, Last: 60}),
			Header: nats.Header{"Loaderd-Mac": {strings.Repeat("00", 16)}}}} {
		for _, led := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", led", false: ", not led"}[led], func(t *testing.T) {
				ctx := natstest.Context(t) // one context for all fourteen cases would expire on a busy machine
				run := name + map[bool]string{true: "-led", false: ""}[led]
				forged := &nats.Msg{Subject: "plan." + run, Data: bytes.Clone(forged.Data), Header: forged.Header}
				var served chan error
				var goOn func()
				if led {
					served, goOn = begun(t, store, run)
				} else {
					goesOn(t, store, run, func(context.Context, *loader.Run) {})
				}
				if _, err := store.Own().JetStream().PublishMsg(ctx, forged); err != nil {
					t.Fatal(err)
				}
				if led {
					goOn()
					if err := <-served; reasonOf(err) != fault.PlanForeign {
						t.Errorf("Serve = %v", err)
					}
				}
				if err := opened(t, store, run); reasonOf(err) != fault.PlanForeign || !strings.Contains(err.Error(), "record ") {
					t.Errorf("Open = %v", err)
				}
				if err := edges(t, store, run).Plan.Scan(ctx, 2, func(uint64, []byte) error {
					return nil
				}); reasonOf(err) != fault.PlanForeign {
					t.Errorf("Scan = %v", err)
				}
				d, err := runadmin.Inspect(ctx, store, run, lease.NewLeaderInfo("here", 1), 0)
				if err != nil {
					t.Fatal(err)
				}
				if !d.HasSameSteps() {
					t.Errorf("%+v", d.Damage)
				}
				err = errors.Join(d.Copy(ctx, run+"-copy", func(uint64) {}), d.Close())
				if err != nil {
					t.Fatal(err)
				}
				if have := serve(t, store, run+"-copy", config("bfd")); !reflect.DeepEqual(have, want) {
					t.Errorf("%d steps of the copy differ from %d of the run", len(have), len(want))
				}
			})
		}
	}
}

// A checkpoint that none of the daemons stored under its name is ignored: the run continues as without it.
func TestPlanKey_IgnoresForgedCheckpoints(t *testing.T) {
	store, with := keyed(t, firstKey)
	ctx, want := natstest.Context(t), serve(t, with(), "plain", config("bfd"))
	goesOn(t, store, "run", func(context.Context, *loader.Run) {})
	checkpoints := edges(t, store, "run").Checkpoints
	stored, err := checkpoints.List(ctx)
	if err != nil || len(stored) < 2 {
		t.Fatalf("%v, %v", stored, err)
	}
	objects, err := store.Own().JetStream().ObjectStore(ctx, "CHECKPOINTS_run")
	if err != nil {
		t.Fatal(err)
	}
	genuine, err := objects.GetBytes(ctx, stored[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := checkpoints.Get(ctx, stored[0].Name); err != nil || !bytes.Equal(b, genuine[:len(genuine)-16]) {
		t.Errorf("%d bytes of %d: %v", len(b), len(genuine), err)
	}
	for _, s := range stored[1:] { // a valid one, under the name of another
		if _, err := objects.PutBytes(ctx, s.Name, genuine); err != nil {
			t.Fatal(err)
		}
		if _, err := checkpoints.Get(ctx, s.Name); err == nil ||
			!strings.Contains(err.Error(), "none of its daemons stored it") {
			t.Errorf("Get = %v", err)
		}
	}
	if _, err := objects.PutBytes(ctx, stored[0].Name, []byte("short")); err != nil {
		t.Fatal(err)
	}
	if have := serve(t, store, "run", config("bfd")); !reflect.DeepEqual(have, want) {
		t.Errorf("%d steps, want %d", len(have), len(want))
	}
}

// Only heartbeats of daemons with a key are received. Of the responses to a request the first with a valid MAC
// counts, however fast a process without a key responds.
func TestPlanKey_IgnoresHeartbeatsWithoutMAC(t *testing.T) {
	store, with := keyed(t, firstKey)
	ctx, rotated := natstest.Context(t), with(secondKey, firstKey)
	heard := make(chan string, 16)
	quiet, err := daemonbus.New(rotated, "run").Subscribe(func(word []byte) { heard <- string(word) })
	if err != nil {
		t.Fatal(err)
	}
	defer quiet()
	if err := rotated.Own().Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	for word, s := range map[string]*stream.Store{"of a stranger": with(),
		"of another key": with(strings.Repeat("c3", 32))} {
		if err := errors.Join(daemonbus.New(s, "run").Publish([]byte(word)), s.Own().Conn().Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := daemonbus.New(store, "run").Publish([]byte("of a daemon")); err != nil {
		t.Fatal(err)
	}
	if word := <-heard; word != "of a daemon" {
		t.Errorf("a word %s is heard", word)
	}
	asked := make(chan string, 16)
	stranger := with().Own().Conn()
	evil, err := stranger.Subscribe(stream.ServiceSubject+".ask.run", func(m *nats.Msg) {
		_ = m.Respond([]byte("of a stranger"))
		asked <- string(m.Data)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Flush(); err != nil { // the stranger receives the request too
		t.Fatal(err)
	}
	defer evil.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	first := make(chan struct{})
	quiet, err = daemonbus.New(rotated, "run").Serve(func(_ context.Context, q []byte) []byte {
		<-first
		if string(q) != "question" {
			t.Errorf("the daemon is asked %q", q)
		}
		return append(q, " answered"...)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer quiet()
	if err := errors.Join(rotated.Own().Conn().Flush()); err != nil {
		t.Fatal(err)
	}
	go func() { <-asked; close(first) }() // the stranger has responded
	if b, err := daemonbus.New(rotated, "run").Request(ctx, []byte("question")); err != nil ||
		string(b) != "question answered" {
		t.Errorf("Ask = %q, %v", b, err)
	}
	limit, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if b, err := daemonbus.New(with(strings.Repeat("c3", 32)), "run").Request(limit,
		[]byte("of another key")); err == nil {
		t.Errorf("a question of another key is answered with %q", b)
	}
	if _, err := daemonbus.New(with(firstKey), "nobody").Request(ctx, []byte("x")); !errors.Is(err, fault.ErrNoLeader) {
		t.Errorf("where nobody is: %v", err)
	}
}
