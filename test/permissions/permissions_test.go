package permissions_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/corpus"
	"loaderd/internal/daemon"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/internal/publishing"
	"loaderd/loader/planrecord"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/permissions"
)

// permitted returns the permissions that docs/how-to/cluster.md lists for a party, under a heading such as "publish".
func permitted(t *testing.T, party string) *server.Permissions {
	t.Helper()
	page, err := os.ReadFile("docs/how-to/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(page), "\n    # "+party+"\n")
	if !found {
		t.Fatalf("docs/how-to/cluster.md lists nothing for %s", party)
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

// refusals keeps a server's log lines about refused messages.
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

// publishFolder publishes a folder as loaderd publish does.
func publishFolder(t *testing.T, url, folder string) {
	t.Helper()
	c := natstest.Config(t)
	c.URL = url
	store := natstest.Open(t, c)
	defer store.Close()
	inputs, err := corpus.Open(t.Context(), []string{folder}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := publishing.Open(t.Context(), store, inputs, publishing.Options{Source: "files", SkipTooLarge: true,
		SkipInvalid: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if s, err := p.Run(t.Context()); err != nil || s.Documents == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
}

// serveRefusingNothing starts a server with these users and returns its address. The server must not refuse any
// message until the test ends.
func serveRefusingNothing(t *testing.T, users ...*server.User) string {
	t.Helper()
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, StoreDir: t.TempDir(),
		JetStream: true, Users: users}
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
	return s.Addr().String()
}

// A daemon and a producer make all their requests with the permissions that docs/how-to/cluster.md lists. The server
// refuses nothing.
func TestPermissions_ListedOnesSuffice(t *testing.T) {
	at := serveRefusingNothing(t, &server.User{Username: "daemon", Password: "d", Permissions: permitted(t, "daemon")},
		&server.User{Username: "producer", Password: "p", Permissions: permitted(t, "producer")})
	c := daemontest.Settings(t, "nats://daemon:d@"+at)
	c.Serve.Retention, c.Serve.PurgeDelay = "purge", time.Millisecond
	d, other := daemontest.Start(t, c), daemontest.Start(t, c)
	daemontest.Publish(t, "nats://producer:p@"+at, daemontest.GoSource(t, 400))
	publishFolder(t, "nats://producer:p@"+at, "docs")
	daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: 80})
	daemontest.Read(t, other.FlightURI(), api.Ticket{Steps: 20, Job: "other"})
	client, err := flightclient.Open(other.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, job := range []string{planrecord.DefaultJob, "other"} {
		if err := client.Do(t.Context(), "commit", map[string]any{"step": 70, "job": job}, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.FindID(t.Context(), c.Run, "fmt/print.go"); err != nil {
		t.Error(err)
	}
	daemontest.Eventually(t, func() bool { return d.Run().Info().Oldest > 0 })
	daemontest.Stop(t, d)
	if _, err := client.Flush(t.Context(), c.Run); err != nil {
		t.Error(err)
	}
	daemontest.Stop(t, other)
}

// A daemon pulls documents through a stream that holds a part of them, to the end, with the permissions that
// docs/how-to/cluster.md lists for that. The server refuses nothing.
func TestPullPermissions_ListedOnesSuffice(t *testing.T) {
	daemonMay, more := permitted(t, "daemon"), permitted(t, "daemon with pull.from")
	for i, several := range []bool{false, true} {
		url := serveRefusingNothing(t, &server.User{Username: "daemon", Password: "d",
			Permissions: &server.Permissions{Subscribe: daemonMay.Subscribe,
				Publish: &server.SubjectPermission{Allow: slices.Concat(daemonMay.Publish.Allow, more.Publish.Allow)}}})
		c, _ := daemontest.PullSettings(t, several)
		c.Run, c.Stream.URL = fmt.Sprint("pulled", i), "nats://daemon:d@"+url
		d, other := daemontest.Start(t, c), daemontest.Start(t, withFlight(c, natstest.FreeAddress(t)))
		if steps := daemontest.Train(t, d.FlightURI(), func(int) {}); len(steps) == 0 {
			t.Error("no steps")
		}
		daemontest.Stop(t, d)
		daemontest.Stop(t, other)
	}
}

// Permissions that a daemon lacks to fill a stream are named, each subject once. They are checked when it fills one
// alone.
func TestPullPermissions_MissingOnesAreNamed(t *testing.T) {
	lacks := []string{"docs.web", "$JS.API.STREAM.UPDATE.DOCS_web", "$JS.API.STREAM.INFO.DOCS_web",
		"$JS.API.STREAM.MSG.GET.DOCS_web", "$KV.loaderd_pulls.DOCS_web",
		"$JS.API.STREAM.INFO.KV_loaderd_pulls", "$JS.API.DIRECT.GET.KV_loaderd_pulls.$KV.loaderd_pulls.DOCS_web",
		"$KV.loaderd_leads.pull.DOCS_web", "loaderd.freed.pull.DOCS_web"}
	var users []*server.User
	for i, subject := range lacks {
		users = append(users, &server.User{Username: fmt.Sprint("user", i), Password: "d", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{">"}, Deny: []string{subject}},
			Subscribe: &server.SubjectPermission{Allow: []string{">"}}}})
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		StoreDir: t.TempDir(), JetStream: true, Users: users})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not listen")
	}
	for i, subject := range lacks {
		c := natstest.Config(t)
		c.URL = fmt.Sprintf("nats://user%d:d@%s", i, s.Addr())
		store := natstest.Open(t, c)
		t.Cleanup(func() { store.Close() })
		does := permissions.Tasks{Purges: true}
		if err := permissions.Check(t.Context(), store, "pretrain", does); err != nil {
			t.Errorf("who pulls nothing does not need %s: %v", subject, err)
		}
		web := store.Source("web", 1)
		does.Pulls = []permissions.Pull{{Documents: web, Subject: web.Config().Subject, Seals: true}}
		err := permissions.Check(t.Context(), store, "pretrain", does)
		var missing *permissions.MissingError
		if !errors.As(err, &missing) || len(missing.Missing) != 1 || missing.Missing[0].Subject != subject {
			t.Errorf("without %s: %v", subject, err)
		}
	}
}

// A daemon that is configured to fill a stream does not start without the permission.
func TestPullPermissions_DaemonDoesNotStartWithout(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		StoreDir: t.TempDir(), JetStream: true,
		Users: []*server.User{{Username: "daemon", Password: "d", Permissions: permitted(t, "daemon")}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not listen")
	}
	c, _ := daemontest.PullSettings(t, true)
	c.Stream.URL = "nats://daemon:d@" + s.Addr().String()
	_, err = daemon.Start(natstest.TimeoutContext(t, time.Minute), c, slog.New(slog.DiscardHandler))
	if !errors.As(err, new(*permissions.MissingError)) || !strings.Contains(err.Error(), "publish to docs.code,") ||
		!strings.Contains(err.Error(), "STREAM.UPDATE.DOCS_web") {
		t.Errorf("%v", err)
	}
}

func withFlight(c config.Config, listen string) config.Config {
	c.Flight.Listen = listen
	return c
}

// unasked are patterns of the daemon's list that are not checked by a request.
var unasked = []string{
	"$JS.API.INFO",         // the connection fails without it
	"$JS.API.STREAM.NAMES", // for tools
	"_INBOX.>", "$JS.FC.>", // reply subjects, which cannot be requested
	conn.UserInfoSubject, // optional: only the daemon's user information
}

// A daemon that lacks permissions does not start, and names all of them together. With the whole list it lacks
// nothing. The check leaves nothing behind.
func TestPermissions_MissingOnesAreNamed(t *testing.T) {
	list := permitted(t, "daemon")
	users := []*server.User{{Username: "all", Password: "d"}, {Username: "listed", Password: "d", Permissions: list}}
	type lack struct {
		user, pattern, what string
	}
	var lacks []lack
	without := func(p *server.SubjectPermission, i int) *server.SubjectPermission {
		return &server.SubjectPermission{Allow: slices.Concat(p.Allow[:i], p.Allow[i+1:])}
	}
	for i, pattern := range list.Publish.Allow {
		if !slices.Contains(unasked, pattern) {
			lacks = append(lacks, lack{fmt.Sprint("publisher", i), pattern, "publish"})
			users = append(users, &server.User{Username: lacks[len(lacks)-1].user, Password: "d",
				Permissions: &server.Permissions{Publish: without(list.Publish, i), Subscribe: list.Subscribe}})
		}
	}
	for i, pattern := range list.Subscribe.Allow {
		if pattern != "_INBOX.>" { // without reply subjects no request works
			lacks = append(lacks, lack{fmt.Sprint("subscriber", i), pattern, "subscribe"})
			users = append(users, &server.User{Username: lacks[len(lacks)-1].user, Password: "d",
				Permissions: &server.Permissions{Publish: list.Publish, Subscribe: without(list.Subscribe, i)}})
		}
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		StoreDir: t.TempDir(), JetStream: true, Users: users})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not listen")
	}
	open := func(user string) *stream.Store {
		c := natstest.Config(t)
		c.URL = "nats://" + user + ":d@" + s.Addr().String()
		store := natstest.Open(t, c)
		t.Cleanup(func() { store.Close() })
		return store
	}
	ctx := natstest.TimeoutContext(t, time.Minute)
	all := open("all")
	check := func(when string) {
		if err := permissions.Check(ctx, open("listed"), "pretrain", permissions.Tasks{Purges: true}); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		for _, l := range lacks {
			err := permissions.Check(ctx, open(l.user), "pretrain", permissions.Tasks{Purges: true})
			if when != "before there are streams" && l.pattern == "$JS.API.STREAM.CREATE.*" {
				if err != nil {
					t.Errorf("%s: without permission to make streams, which are there: %v", when, err)
				}
				continue
			}
			var missing *permissions.MissingError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), "docs/how-to/cluster.md#permissions") {
				t.Errorf("%s, without permission to %s to %s: %v", when, l.what, l.pattern, err)
				continue
			}
			for _, p := range missing.Missing {
				if !server.SubjectsCollide(p.Subject, l.pattern) || p.Subscribe != (l.what == "subscribe") {
					t.Errorf("%s, without permission to %s to %s: %+v", when, l.what, l.pattern, p)
				}
			}
		}
	}
	check("before there are streams")
	if account, err := all.AccountName(ctx); err != nil || account != "$G" {
		t.Errorf("the account is %q, %v", account, err)
	}
	if n, err := all.JetStream().AccountInfo(ctx); err != nil || n.Streams > 0 {
		t.Errorf("asking made %d streams, %v", n.Streams, err)
	}
	c := daemontest.Settings(t, "nats://all:d@"+s.Addr().String())
	c.Run = "pretrain"
	d := daemontest.Start(t, c)
	daemontest.Publish(t, c.Stream.URL, daemontest.GoSource(t, 50))
	daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: 4})
	daemontest.Stop(t, d)
	before := states(t, all)
	check("where there are streams")
	if after := states(t, all); !maps.Equal(before, after) {
		t.Errorf("asking changed streams from %v to %v", before, after)
	}
	c.Stream.URL = "nats://" + lacks[0].user + ":d@" + s.Addr().String()
	if _, err := daemon.Start(ctx, c, slog.New(slog.DiscardHandler)); !errors.As(err, new(*permissions.MissingError)) {
		t.Errorf("a daemon starts without %s: %v", lacks[0].pattern, err)
	}
}

// states returns the first and last sequence and the number of messages of all streams.
func states(t *testing.T, s *stream.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	for info := range s.JetStream().ListStreams(t.Context()).Info() {
		all[info.Config.Name] = fmt.Sprint(info.State.FirstSeq, info.State.LastSeq, info.State.Msgs)
	}
	return all
}
