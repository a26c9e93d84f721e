package permissions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"loaderd/internal/api"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/internal/runadmin"
	"loaderd/stream"
	"loaderd/stream/publish"
	"loaderd/stream/retention"
)

// userOf maps the accounts of the templates in docs/nats to the user of each.
var userOf = map[string]string{"LOADERD": "daemon", "PRODUCERS": "producer", "OBSERVERS": "observer"}

// share is an import in a template, by which an account may make a request in LOADERD.
type share struct{ account, subject string }

// template is a configuration of servers, with the connection settings of its users.
type template struct {
	config string
	users  map[string]stream.Config // by account
}

// byNKeys returns docs/nats/server.conf with users that have NKeys, without some of its shares.
func byNKeys(t *testing.T, without ...share) template {
	t.Helper()
	text, err := os.ReadFile("docs/nats/server.conf")
	if err != nil {
		t.Fatal(err)
	}
	all := template{config: string(text), users: map[string]stream.Config{}}
	for account, user := range userOf {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		all.config = strings.ReplaceAll(all.config, "$"+strings.ToUpper(user)+"_NKEY", public)
		c := natstest.Config(t)
		c.NKey = secret(t, user+".nk", seed)
		all.users[account] = c
	}
	for _, s := range without {
		begin := strings.Index(all.config, "\n  "+s.account+" {")
		line := regexp.MustCompile(`\n.*subject: "` + regexp.QuoteMeta(s.subject) + `".*`)
		all.config = all.config[:begin] + strings.Replace(all.config[begin:], line.FindString(all.config[begin:]), "", 1)
	}
	return all
}

// sharesOf returns the shares of docs/nats/server.conf.
func sharesOf(t *testing.T) (all []share) {
	t.Helper()
	text, err := os.ReadFile("docs/nats/server.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"PRODUCERS", "OBSERVERS"} {
		_, block, _ := strings.Cut(string(text), "\n  "+account+" {")
		block, _, _ = strings.Cut(block, "\n  }")
		for _, m := range regexp.MustCompile(`subject: "([^"]+)"`).FindAllStringSubmatch(block, -1) {
			all = append(all, share{account, m[1]})
		}
	}
	return all
}

func secret(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// byOperator returns the result of docs/nats/operator.sh with nsc: its accounts, with an activation for each share,
// and credentials.
func byOperator(t *testing.T) template {
	t.Helper()
	script, err := os.ReadFile("docs/nats/operator.sh")
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair := func(make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		t.Helper()
		k, err := make()
		must(err)
		public, err := k.PublicKey()
		must(err)
		return k, public
	}
	operator, operatorKey := pair(nkeys.CreateOperator)
	_, system := pair(nkeys.CreateAccount)
	keys, claims := map[string]nkeys.KeyPair{}, map[string]*jwt.AccountClaims{}
	for _, m := range regexp.MustCompile(`(?m)^nsc add account --name (\w+)$`).FindAllStringSubmatch(string(script), -1) {
		k, public := pair(nkeys.CreateAccount)
		keys[m[1]], claims[m[1]] = k, jwt.NewAccountClaims(public)
		claims[m[1]].Name = m[1]
	}
	own := claims["LOADERD"]
	if !strings.Contains(string(script),
		"nsc edit account --name LOADERD --js-disk-storage -1 --js-mem-storage -1 --js-streams -1 --js-consumer -1\n") {
		t.Fatal("docs/nats/operator.sh gives LOADERD no JetStream")
	}
	own.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	for _, m := range regexp.MustCompile(`(?m)^offer '([^']+)' (\w+)$`).FindAllStringSubmatch(string(script), -1) {
		own.Exports.Add(&jwt.Export{Name: m[1], Subject: jwt.Subject(m[1]), Type: jwt.Service, TokenReq: true,
			ResponseType: jwt.ResponseType(m[2])})
	}
	var shares []share
	for _, m := range regexp.MustCompile(`(?m)^share (\w+) '([^']+)'$`).FindAllStringSubmatch(string(script), -1) {
		shares = append(shares, share{m[1], m[2]})
	}
	if want := sharesOf(t); !slices.Equal(shares, want) {
		t.Errorf("operator.sh shares %q, server.conf %q", shares, want)
	}
	for _, s := range shares {
		account, subject := s.account, jwt.Subject(s.subject)
		may := jwt.NewActivationClaims(claims[account].Subject)
		may.ImportSubject, may.ImportType = subject, jwt.Service
		token, err := may.Encode(keys["LOADERD"])
		must(err)
		claims[account].Imports.Add(&jwt.Import{Name: s.subject, Subject: subject, Account: own.Subject, Token: token,
			Type: jwt.Service})
	}
	all := template{users: map[string]stream.Config{}}
	self := jwt.NewOperatorClaims(operatorKey)
	self.SystemAccount = system
	token, err := self.Encode(operator)
	must(err)
	all.config = fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n", token, system)
	for name, c := range claims {
		var result jwt.ValidationResults
		c.Validate(&result)
		for _, problem := range result.Issues {
			t.Errorf("account %s: %s", name, problem.Description)
		}
		token, err := c.Encode(operator)
		must(err)
		all.config += fmt.Sprintf("  %s: %s\n", c.Subject, token)
		user, userKey := pair(nkeys.CreateUser)
		token, err = jwt.NewUserClaims(userKey).Encode(keys[name])
		must(err)
		seed, err := user.Seed()
		must(err)
		text, err := jwt.FormatUserConfig(token, seed)
		must(err)
		config := natstest.Config(t)
		config.Credentials = secret(t, userOf[name]+".creds", text)
		all.users[name] = config
	}
	sys := jwt.NewAccountClaims(system)
	token, err = sys.Encode(operator)
	must(err)
	all.config += fmt.Sprintf("  %s: %s\n}\n", system, token)
	return all
}

// serve starts a server of the template and completes its users' settings. The server must not refuse any message.
func (all template) serve(t *testing.T) (s *server.Server) {
	t.Helper()
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, StoreDir: t.TempDir(),
		JetStream: true}
	if err := opts.ProcessConfigString(all.config); err != nil {
		t.Fatalf("%v in\n%s", err, all.config)
	}
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
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not listen")
	}
	for account, c := range all.users {
		c.URL = "nats://" + s.Addr().String()
		all.users[account] = c
	}
	return s
}

// open connects as the user of an account.
func (all template) open(t *testing.T, account string) *stream.Store {
	t.Helper()
	s := natstest.Open(t, all.users[account])
	t.Cleanup(func() { s.Close() })
	return s
}

// makeStreams makes a daemon's streams, and the bucket of `loaderd publish`.
func (all template) makeStreams(t *testing.T) {
	t.Helper()
	s := all.open(t, "LOADERD")
	if _, err := s.EnsureDocuments(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureKeyValue(t.Context(), "loaderd_publish", "what loaderd publish has committed"); err != nil {
		t.Fatal(err)
	}
}

// produce makes all requests of producers. It publishes an input, another input to the same source, and the first
// input again after a change, so that stored messages are read back. It also requests the readers.
func produce(ctx context.Context, store *stream.Store, messages []stream.Message) error {
	as := func(f func(p *publish.Publisher) error) error {
		p, err := publish.New(ctx, store, "files", publish.Options{})
		if err != nil {
			return err
		}
		defer p.Close()
		if err := f(p); err != nil {
			return err
		}
		_, err = p.Flush(ctx)
		return err
	}
	input := func(fingerprint string) error {
		return as(func(p *publish.Publisher) error {
			r, err := p.Resume(ctx, "input", fingerprint)
			if err != nil {
				return err
			}
			for _, m := range messages {
				if err := r.Publish(ctx, m.Path, m); err != nil {
					return err
				}
			}
			return r.Finish(ctx)
		})
	}
	if err := input("as it was"); err != nil {
		return err
	}
	other := []stream.Message{{ID: "one", Data: []byte("one more")}, {ID: "two", Data: []byte("and one more")},
		{ID: "three", Data: []byte("the last")}}
	if err := as(func(p *publish.Publisher) error { return p.Publish(ctx, other...) }); err != nil {
		return err
	}
	if err := input("as it is now"); err != nil {
		return err
	}
	_, err := retention.Readers(ctx, store)
	return err
}

// A daemon, a producer and an observer make all their requests as users of the templates, with NKeys and with an
// operator's credentials. The server refuses nothing. The producer and the observer can make no other requests.
func TestNATSTemplate_PermitsExactlyNeededRequests(t *testing.T) {
	messages := daemontest.GoSource(t, 400)
	for name, make := range map[string]func(*testing.T) template{"NKeys": func(t *testing.T) template {
		return byNKeys(t)
	}, "operator": byOperator} {
		t.Run(name, func(t *testing.T) {
			all := make(t)
			all.serve(t)
			all.makeStreams(t)
			c := daemontest.Settings(t, "")
			c.Stream.URL, c.Stream.NKey, c.Stream.Credentials = all.users["LOADERD"].URL, all.users["LOADERD"].NKey,
				all.users["LOADERD"].Credentials
			c.Serve.Retention, c.Serve.PurgeDelay = "purge", time.Millisecond
			d := daemontest.Start(t, c)
			ctx := natstest.TimeoutContext(t, time.Minute)
			if account, err := d.Store().AccountName(ctx); err != nil || account == "$G" {
				t.Errorf("the daemon is in account %q, %v", account, err)
			}
			if err := produce(ctx, all.open(t, "PRODUCERS"), messages); err != nil {
				t.Fatal(err)
			}
			st, err := d.Store().JetStream().Stream(ctx, "DOCS")
			if err != nil {
				t.Fatal(err)
			}
			if n := st.CachedInfo().State.LastSeq; n != uint64(len(messages))+3 {
				t.Errorf("%d documents are stored, want %d", n, len(messages)+3)
			}
			heard := hearAll(t, all)
			first := daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: 80})
			client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.Do(ctx, "commit", map[string]any{"step": 70}, nil); err != nil {
				t.Error(err)
			}
			daemontest.Eventually(t, func() bool { return d.Run().Info().Oldest > 0 })
			for _, subject := range heard() {
				if !strings.HasPrefix(subject, "docs.") && !strings.HasPrefix(subject, "$KV.loaderd_publish.") &&
					!strings.HasPrefix(subject, "$JS.API.") && !strings.HasPrefix(subject, "_INBOX.") {
					t.Errorf("a producer hears %s", subject)
				}
			}
			if _, err := client.FindID(ctx, c.Run, messages[399].Path); err != nil {
				t.Error(err)
			}
			listed, err := runadmin.List(ctx, all.open(t, "OBSERVERS"))
			if err != nil || len(listed) != 1 || listed[0].Leader == nil || !listed[0].Leader.Responds {
				t.Errorf("the observer sees %+v, %v", listed, err)
			}
			for account := range userOf {
				if account != "LOADERD" {
					reachNoMore(t, all, account, d.Store(), c.Run)
				}
			}
			daemontest.Stop(t, d)
			again := daemontest.Start(t, c)
			second := daemontest.Read(t, again.FlightURI(), api.Ticket{Step: 71, Steps: 9})
			for i, b := range second {
				if !reflect.DeepEqual(b, first[71+i]) {
					t.Fatalf("step %d is another one after a restart", 71+i)
				}
			}
			if _, err := client.Flush(ctx, c.Run); err == nil {
				t.Error("the daemon that was stopped answers")
			}
			daemontest.Stop(t, again)
		})
	}
}

// On a cluster a producer trusts the response of the stream's leader, because it may not confirm it by a purge.
func TestNATSTemplate_ProducerOfClusterTrustsLeader(t *testing.T) {
	messages := daemontest.GoSource(t, 20)
	all := byNKeys(t)
	cluster := natstest.StartCluster(t, 3, func(c *natstest.ClusterConfig) { c.Accounts = all.config })
	for account, c := range all.users {
		c.URL, c.Replicas = cluster.Config().URL, 3
		all.users[account] = c
	}
	all.makeStreams(t)
	own, ctx := all.open(t, "LOADERD"), natstest.TimeoutContext(t, time.Minute)
	if err := produce(ctx, all.open(t, "PRODUCERS"), messages); err != nil {
		t.Fatal(err)
	}
	st, err := own.EnsureDocuments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := st.CachedInfo().State.LastSeq; n != uint64(len(messages))+3 {
		t.Errorf("%d documents are stored, want %d", n, len(messages)+3)
	}
}

// elsewhere are shares whose use this test does not cover.
var elsewhere = []share{
	// on a cluster a producer sends requests to the server that leads the stream
	{"PRODUCERS", "$JS.API.STREAM.MSG.GET.DOCS"},
	{"PRODUCERS", "$JS.API.DIRECT.GET.KV_loaderd_publish"}, // returns the input of a duplicate
	// The Python producer uses these to find the stream and its readers.
	{"PRODUCERS", "$JS.API.STREAM.NAMES"}, {"PRODUCERS", "$JS.API.DIRECT.GET.KV_loaderd_readers.>"},
}

// Each share of a template is needed. Without it, a request of a producer or an observer gets no response.
func TestNATSTemplate_EveryShareIsNeeded(t *testing.T) {
	messages := daemontest.GoSource(t, 5)
	for _, s := range sharesOf(t) {
		if slices.Contains(elsewhere, s) {
			continue
		}
		t.Run(s.account+" "+s.subject, func(t *testing.T) {
			all := byNKeys(t, s)
			all.serve(t)
			all.makeStreams(t)
			if s.subject == "$JS.API.INFO" { // the account's own JetStream responds that it is not enabled
				_, err := stream.Open(t.Context(), all.users[s.account], slog.New(slog.DiscardHandler))
				if !errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
					t.Errorf("connected, %v", err)
				}
				return
			}
			does := func(ctx context.Context, store *stream.Store) error { return produce(ctx, store, messages) }
			if s.account == "OBSERVERS" {
				c := daemontest.Settings(t, "")
				c.Stream.URL, c.Stream.NKey = all.users["LOADERD"].URL, all.users["LOADERD"].NKey
				daemontest.Start(t, c)
				own := all.open(t, "LOADERD")
				daemontest.Eventually(t, func() bool {
					led, err := runadmin.List(t.Context(), own)
					return err == nil && len(led) == 1 && led[0].Leader != nil
				})
				does = func(ctx context.Context, store *stream.Store) error {
					_, err := runadmin.List(ctx, store)
					return err
				}
			}
			asked(t, all, s, does)
		})
	}
}

// asked runs does as a user and waits until a request is made for a share that the template lacks.
func asked(t *testing.T, all template, s share, does func(ctx context.Context, store *stream.Store) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(natstest.TimeoutContext(t, time.Minute))
	nc := all.open(t, s.account).Conn()
	request := make(chan string, 1000)
	sub, err := nc.Subscribe(s.subject, func(m *nats.Msg) { request <- m.Subject })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails on a closed connection alone
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	store := make(chan *stream.Store, 1)
	done := make(chan error, 1)
	go func() {
		c := all.users[s.account]
		opened, err := stream.Open(ctx, c, slog.New(slog.DiscardHandler))
		if err == nil {
			store <- opened
			err = does(ctx, opened)
		}
		done <- err
	}()
	select {
	case <-request:
		cancel()
		<-done
	case err := <-done:
		t.Errorf("nobody asked for it (%v)", err)
		cancel()
	}
	select {
	case opened := <-store:
		opened.Close() //nolint:errcheck // of a server elsewhere
	default:
	}
}

// hearAll subscribes to all subjects as a producer. The returned function unsubscribes and returns the received
// subjects. The subscriber also receives all requests of the account, so no request is tested meanwhile that must get
// no response.
func hearAll(t *testing.T, all template) func() []string {
	t.Helper()
	var mu sync.Mutex
	subjects := map[string]bool{}
	nc := all.open(t, "PRODUCERS").Conn()
	sub, err := nc.Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		subjects[m.Subject] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() []string {
		_ = sub.Unsubscribe()
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(subjects))
	}
}

// operations are the operations of JetStream's API, by the rest of their subjects.
var operations = map[string][]string{
	"": {"INFO", "STREAM.LIST", "STREAM.NAMES", "ACCOUNT.PURGE.x"},
	".%s": {"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.INFO", "STREAM.RESTORE",
		"STREAM.SNAPSHOT", "STREAM.PEER.REMOVE",
		"STREAM.LEADER.STEPDOWN", "STREAM.MSG.DELETE", "STREAM.MSG.GET", "DIRECT.GET", "CONSUMER.CREATE", "CONSUMER.NAMES",
		"CONSUMER.LIST"},
	".%s.x": {"CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.DELETE", "CONSUMER.INFO", "CONSUMER.MSG.NEXT",
		"CONSUMER.PAUSE", "CONSUMER.RESET",
		"CONSUMER.LEADER.STEPDOWN", "CONSUMER.UNPIN", "DIRECT.GET"},
	".%s.x.>": {"CONSUMER.CREATE"},
}

// forbidden matches what no template may permit to producers: purges, deletions, creations, changes, and all subjects
// of plans.
var forbidden = regexp.MustCompile(
	`PURGE|DELETE|CREATE|UPDATE|RESTORE|SNAPSHOT|STEPDOWN|REMOVE|CONSUMER|plan\.|PLAN_|CHECKPOINTS|leads|floors|pulls|loaderd\.`)

// reachNoMore makes all JetStream requests on all streams, and publishes to every other subject of loaderd, as the
// user of an account. Only subjects that the template shares have a receiver. Reply subjects do not give access to
// the plan either.
func reachNoMore(t *testing.T, all template, account string, own *stream.Store, run string) {
	t.Helper()
	ctx := natstest.Context(t)
	var streams []string
	for name := range own.JetStream().StreamNames(ctx).Name() {
		streams = append(streams, name)
	}
	if len(streams) < 6 {
		t.Fatalf("the daemon keeps %q", streams)
	}
	streams = append(streams, "KV_loaderd_pulls")
	subjects := []string{"plan." + run, "plan.other", "dlq.docs.1", "loaderd.word." + run, "loaderd.ask." + run,
		"loaderd.freed." + run,
		"$KV.loaderd_leads." + run, "$KV.loaderd_low_watermarks.x", "$KV.loaderd_pulls.DOCS",
		"$KV.loaderd_checkpoints." + run,
		"$O.CHECKPOINTS_" + run + ".C.x", "$JS.ACK.DOCS.x.1.1.1.1.1"}
	for form, names := range operations {
		for _, name := range names {
			if form == "" {
				subjects = append(subjects, "$JS.API."+name)
				continue
			}
			for _, s := range streams {
				subjects = append(subjects, "$JS.API."+name+strings.ReplaceAll(fmt.Sprintf(form, s), ">", "docs.x"))
			}
		}
	}
	var may []string
	for _, s := range sharesOf(t) {
		if s.account == account {
			may = append(may, s.subject)
		}
	}
	nc := all.open(t, account).Conn()
	for _, subject := range subjects {
		shared := slices.ContainsFunc(may, func(pattern string) bool { return server.SubjectsCollide(pattern, subject) })
		if shared {
			if forbidden.MatchString(subject) && account == "PRODUCERS" {
				t.Errorf("a producer is given %s", subject)
			}
			continue
		}
		if m, err := nc.RequestWithContext(ctx, subject, []byte("?")); !errors.Is(err, nats.ErrNoResponders) {
			t.Fatalf("%s: somebody takes %s: %v, %v", account, subject, m, err)
		}
	}
	if account != "PRODUCERS" {
		return
	}
	for _, answer := range []string{"plan." + run, "$KV.loaderd_leads." + run} {
		if err := nc.PublishRequest("docs.evil", answer,
			[]byte("a document whose acknowledgement goes elsewhere")); err != nil {
			t.Error(err)
		}
		// acknowledged after the previous message
		if _, err := nc.RequestWithContext(ctx, "docs.evil", []byte("the next one")); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"PLAN_" + run, "KV_loaderd_leads"} {
		st, err := own.JetStream().Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := st.CachedInfo().State.FirstSeq; i <= st.CachedInfo().State.LastSeq; i++ {
			if m, err := st.GetMsg(ctx, i); err == nil && strings.HasPrefix(string(m.Data), `{"stream":`) {
				t.Errorf("%s holds an acknowledgement: %s", name, m.Data)
			}
		}
	}
}
