package loaderd_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/corpus"
	"loaderd/internal/natstest"
	"loaderd/internal/publishing"
	"loaderd/internal/reader"
)

// permitted returns what docs/cluster.md lists for a party, under a heading such as "publish".
func permitted(t *testing.T, party string) *server.Permissions {
	t.Helper()
	page, err := os.ReadFile("docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(page), "\n    # "+party+"\n")
	if !found {
		t.Fatalf("docs/cluster.md lists nothing for %s", party)
	}
	p := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{}}
	to := map[string]*server.SubjectPermission{"publish": p.Publish, "subscribe": p.Subscribe}
	for line := range strings.Lines(list) {
		what, subjects, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found || to[what] == nil {
			break
		}
		to[what].Allow = append(to[what].Allow, strings.Fields(subjects)...)
	}
	return p
}

// refusals keeps what a server says of messages that it refused.
type refusals struct{ natstest.LogBuffer }

func (v *refusals) Errorf(format string, a ...any) {
	if text := fmt.Sprintf(format, a...); strings.Contains(strings.ToLower(text), "violation") {
		fmt.Fprintln(v, text)
		fmt.Fprintln(os.Stderr, text)
	}
}
func (*refusals) Noticef(string, ...any) {}
func (*refusals) Warnf(string, ...any)   {}
func (*refusals) Fatalf(string, ...any)  {}
func (*refusals) Debugf(string, ...any)  {}
func (*refusals) Tracef(string, ...any)  {}

// publishFolder does what loaderd publish does.
func publishFolder(t *testing.T, url, folder string) {
	t.Helper()
	c := natstest.Config(t)
	c.URL = url
	store := natstest.Open(t, c)
	defer store.Close()
	inputs, err := corpus.Open([]string{folder}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := publishing.Open(t.Context(), store, inputs, publishing.Options{Source: "files", SkipTooLarge: true, SkipBad: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if s, err := p.Run(t.Context()); err != nil || s.Documents == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
}

// A daemon and a producer do all that they do with the permissions that docs/cluster.md lists: the server refuses nothing.
func TestPermissions(t *testing.T) {
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, StoreDir: t.TempDir(), JetStream: true, Users: []*server.User{
		{Username: "daemon", Password: "d", Permissions: permitted(t, "daemon")},
		{Username: "producer", Password: "p", Permissions: permitted(t, "producer")}}}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	var refused refusals
	s.SetLogger(&refused, false, false)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
		if text := refused.String(); text != "" {
			t.Errorf("the server refused:\n%s", text)
		}
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not listen")
	}
	at := s.Addr().String()
	c := settings(t, "nats://daemon:d@"+at)
	c.Serve.Release, c.Serve.ReleaseAfter = "purge", time.Millisecond
	d, other := start(t, c), start(t, c)
	publishTo(t, "nats://producer:p@"+at, goSource(t, 400))
	publishFolder(t, "nats://producer:p@"+at, "docs")
	read(t, d.FlightURI(), reader.Ticket{Steps: 80})
	read(t, other.FlightURI(), reader.Ticket{Steps: 20, Job: "other"})
	client, err := reader.Open(other.FlightURI(), reader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(t.Context(), "commit", map[string]any{"step": 70}, nil); err != nil {
		t.Error(err)
	}
	if _, err := client.FindID(t.Context(), c.Run, "fmt/print.go"); err != nil {
		t.Error(err)
	}
	until(t, func() bool { return d.Run().Info().Oldest > 0 })
	stop(t, d)
	if _, err := client.Drain(t.Context(), c.Run); err != nil {
		t.Error(err)
	}
	stop(t, other)
}
