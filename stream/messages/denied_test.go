package messages_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/messages"
)

// Headers are read the same by clients that may create consumers, by clients that may not, and from an account that
// imports only some of JetStream's requests. The cases are gaps, one subject or all, and the requested end.
func TestEachHeader_WithoutConsumerPermission(t *testing.T) {
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir()}
	err := opts.ProcessConfigString(`accounts {
		OWN {
			jetstream: enabled
			users: [ {user: all, password: p}, {user: few, password: p, permissions: {publish: {deny: ["$JS.API.CONSUMER.>"]}}} ]
			exports: [ {service: "$JS.API.INFO"}, {service: "$JS.API.STREAM.INFO.DOCS"}, {service: "$JS.API.DIRECT.GET.DOCS", response_type: stream} ]
		}
		OTHER {
			users: [ {user: other, password: p} ]
			imports: [ {service: {account: OWN, subject: "$JS.API.INFO"}}, {service: {account: OWN, subject: "$JS.API.STREAM.INFO.DOCS"}},
				{service: {account: OWN, subject: "$JS.API.DIRECT.GET.DOCS"}} ]
		}
	}`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not listen")
	}
	ctx := natstest.TimeoutContext(t, time.Minute)
	as := func(user string) (*stream.Store, jetstream.Stream) {
		c := natstest.Config(t)
		c.URL = "nats://" + user + ":p@" + s.Addr().String()
		store := natstest.Open(t, c)
		t.Cleanup(func() { store.Close() })
		if user == "all" {
			if _, err := store.EnsureDocuments(ctx); err != nil {
				t.Fatal(err)
			}
		}
		st, err := store.JetStream().Stream(ctx, "DOCS")
		if err != nil {
			t.Fatal(err)
		}
		return store, st
	}
	store, st := as("all")
	const n = 2500
	documents := natstest.Documents(1, n)
	for i := range documents {
		documents[i].Path = fmt.Sprint("path ", i)
	}
	natstest.Publish(t, store, documents...)
	other := natstest.Documents(n+1, 10)
	for i := range other {
		other[i].Subject = "docs.other"
	}
	natstest.Publish(t, store, other...)
	for _, gone := range []uint64{1, 2, 1000, 1001, 1002, n - 3} {
		if err := st.DeleteMsg(ctx, gone); err != nil {
			t.Fatal(err)
		}
	}
	few, ofFew := as("few")
	elsewhere, ofElsewhere := as("other")
	for _, c := range []struct {
		subject     string
		first, last uint64
	}{{"", 0, n + 10}, {"docs.test", 1, n + 10}, {"docs.other", 1, n + 10}, {"docs.test", 990, 1010},
		{"docs.test", n - 4, n - 2}, {"docs.nobody", 1, n}} {
		want := places(t, store, st, c.subject, c.first, c.last)
		if got := places(t, few, ofFew, c.subject, c.first, c.last); !slices.Equal(got, want) {
			t.Errorf("%+v: who may make no consumers reads %d headers, want %d", c, len(got), len(want))
		}
		if got := places(t, elsewhere, ofElsewhere, c.subject, c.first, c.last); !slices.Equal(got, want) {
			t.Errorf("%+v: another account reads %d headers, want %d", c, len(got), len(want))
		}
	}
	if want := places(t, store, st, "docs.test", 1, n+10); len(want) != n-6 {
		t.Errorf("%d headers, want %d", len(want), n-6)
	}
}

// places reads headers and returns their sequences and paths.
func places(t *testing.T, s *stream.Store, st jetstream.Stream, subject string, first, last uint64) (all []string) {
	t.Helper()
	err := messages.EachHeader(natstest.TimeoutContext(t, time.Minute), s.Client, st, subject, first, last,
		func(sequence uint64, h nats.Header) bool {
			all = append(all, fmt.Sprint(sequence, h.Get(stream.HeaderPath)))
			return true
		})
	if err != nil {
		t.Error(err)
	}
	return all
}
