package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/planlog"
	"loaderd/stream/server"
)

// answeredWithin bounds the wait for a response. A server that denies a request reports this on the connection.
const answeredWithin = 10 * time.Second

// as connects a stock client with a token of an embedded server.
func as(t *testing.T, s *natstest.Server, file string, user server.User) *nats.Conn {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.Config().Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.Store().ClientURL(), nats.UserInfo(string(user), strings.TrimSpace(string(token))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// answered makes a request and reports whether JetStream executed it.
func answered(ctx context.Context, nc *nats.Conn, subject, payload string) bool {
	ctx, cancel := context.WithTimeout(ctx, answeredWithin)
	defer cancel()
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			cancel()
		}
	})
	m, err := nc.RequestWithContext(ctx, subject, []byte(payload))
	if err != nil {
		return false
	}
	var a struct {
		Error *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	return m.Header.Get("Status") == "" && (json.Unmarshal(m.Data, &a) != nil || a.Error == nil)
}

// The permissions of each user of an embedded server: only the operator can access the plan and the state of a run,
// and no user of the documents' account can.
func TestAccounts_PermissionsOfEachUser(t *testing.T) {
	s := natstest.StartEmbedded(t)
	ctx := natstest.Context(t)
	openDocuments(t, s.Store())
	if _, err := s.Store().EnsureRecords(ctx); err != nil {
		t.Fatal(err)
	}
	openRun(t, s.Store(), "r")
	natstest.Publish(t, s.Store(), natstest.Documents(1, 3)...)
	type may struct{ producer, documents, own bool }
	var (
		all       = may{true, true, true}
		producers = may{true, true, false}
		operators = may{false, true, false} // of the documents
		daemon    = may{false, false, true}
	)
	for _, x := range []struct {
		what, subject, payload string
		want                   may
	}{
		{"ask for the account", "$JS.API.INFO", "", all},
		{"publish a document", "docs.web", "text", producers},
		{"see the document stream", "$JS.API.STREAM.INFO.DOCS", "", producers},
		// the daemon's own account responds that no stream has this subject
		{"find a stream by its subject", "$JS.API.STREAM.NAMES", `{"subject":"docs.web"}`, all},
		{"read a document", "$JS.API.DIRECT.GET.DOCS", `{"seq":1}`, producers},
		{"read a document of the leader", "$JS.API.STREAM.MSG.GET.DOCS", `{"seq":1}`, producers},
		{"write a record of a publisher", "$KV.loaderd_publish.a.b", "{}", producers},
		{"see who reads", "$JS.API.STREAM.INFO.KV_loaderd_readers", "", operators},
		{"make a consumer", "$JS.API.CONSUMER.CREATE.DOCS", `{"stream_name":"DOCS","config":{"ack_policy":"none"}}`,
			operators},
		{"make a stream", "$JS.API.STREAM.CREATE.ELSE", `{"name":"ELSE","subjects":["else"],"storage":"memory"}`,
			may{false, true, true}},
		{"make a stream of the plan's subject", "$JS.API.STREAM.CREATE.TAKES",
			`{"name":"TAKES","subjects":["plan.>"],"storage":"memory"}`, operators},
		{"change the document stream", "$JS.API.STREAM.UPDATE.DOCS",
			`{"name":"DOCS","subjects":["docs.>"],"description":"x"}`, operators},
		{"write who reads", "$KV.loaderd_readers.x", "{}", operators},
		{"write a dead letter", "dlq.docs.web.1", "x", operators},
		{"list streams", "$JS.API.STREAM.LIST", "", may{false, true, true}},
		{"delete a document", "$JS.API.STREAM.MSG.DELETE.DOCS", `{"seq":1}`, operators},
		{"purge the documents", "$JS.API.STREAM.PURGE.DOCS", "", operators},
		{"read the plan", "$JS.API.DIRECT.GET.PLAN_r", `{"seq":1}`, may{}}, // the plan is empty
		{"see the plan", "$JS.API.STREAM.INFO.PLAN_r", "", daemon},
		{"see the checkpoints", "$JS.API.STREAM.INFO.OBJ_CHECKPOINTS_r", "", daemon},
		{"see the floors", "$JS.API.STREAM.INFO.KV_loaderd_low_watermarks", "", daemon},
		{"write to the plan", "plan.r", "rubbish", daemon},
		{"write a floor", "$KV.loaderd_low_watermarks.DOCS/1", "{}", daemon},
		{"take the lead", "$KV.loaderd_leads.r", "{}", may{}}, // no daemon has created the bucket
		{"delete the plan", "$JS.API.STREAM.DELETE.PLAN_r", "", daemon},
		{"delete the documents", "$JS.API.STREAM.DELETE.DOCS", "", operators},
	} {
		t.Run(x.what, func(t *testing.T) {
			have := may{
				answered(ctx, as(t, s, server.ProducerFile, server.Producer), x.subject, x.payload),
				answered(ctx, as(t, s, server.OperatorFile, server.Documents), x.subject, x.payload),
				answered(ctx, as(t, s, server.OperatorFile, server.Own), x.subject, x.payload),
			}
			if have != x.want {
				t.Errorf("producer, operator of the documents, operator of the daemon's own: %v, want %v", have, x.want)
			}
			if x.what == "make a stream of the plan's subject" {
				_ = s.Store().JetStream().DeleteStream(ctx, "TAKES")
			}
		})
	}
}

// The server sends an acknowledgement to any subject that a producer names. It is not executed as a JetStream
// request, and the documents' account contains no plan.
func TestAccounts_ProducerAcknowledgementsReachNoAPI(t *testing.T) {
	s := natstest.StartEmbedded(t)
	ctx := natstest.Context(t)
	docs := openDocuments(t, s.Store())
	plan, err := planlog.Open(ctx, s.Store(), "r")
	if err != nil {
		t.Fatal(err)
	}
	producer := as(t, s, server.ProducerFile, server.Producer)
	replies := []string{"plan.r", "$JS.API.STREAM.PURGE.DOCS", "$JS.API.STREAM.DELETE.DOCS",
		"$JS.API.STREAM.MSG.DELETE.DOCS"}
	for i, reply := range replies {
		if err := producer.PublishMsg(&nats.Msg{Subject: "docs.a", Reply: reply, Data: []byte("text")}); err != nil {
			t.Fatal(err)
		}
		if !answered(ctx, producer, "docs.a", "text") { // its acknowledgement arrives after that one
			t.Fatal("the producer cannot publish")
		}
		info, err := docs.Info(ctx)
		if err != nil || info.State.Msgs != uint64(2*i+2) {
			t.Errorf("behind an acknowledgement to %s: %+v, %v", reply, info, err)
		}
	}
	if last, err := plan.Last(ctx); err != nil || last != 0 {
		t.Errorf("the plan has %d records, %v", last, err)
	}
}

// Producer connections use a bounded number of file descriptors, and the operator can still connect.
func TestProducerToken_ConnectionsAreBounded(t *testing.T) {
	s := natstest.StartEmbedded(t)
	url := natstest.URLWithToken(s.Store().ClientURL(), s.Config().Dir, server.ProducerFile)
	connect := func() error {
		nc, err := nats.Connect(url, nats.NoReconnect(), nats.Timeout(time.Minute))
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return err
	}
	for i := range server.MaxProducers {
		if err := connect(); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if err := connect(); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
		t.Errorf("one connection more: %v", err)
	}
	as(t, s, server.OperatorFile, server.Documents)
}

// A producer receives no responses to the daemon's requests.
func TestAccounts_ProducerReceivesNoDaemonResponses(t *testing.T) {
	s := natstest.StartEmbedded(t)
	ctx := natstest.Context(t)
	docs := openDocuments(t, s.Store())
	producer := as(t, s, server.ProducerFile, server.Producer)
	heard := make(chan string, 1000)
	for _, subject := range []string{"_INBOX.>", "_LOADERD.>", ">"} {
		if _, err := producer.Subscribe(subject, func(m *nats.Msg) { heard <- m.Subject }); err != nil {
			t.Fatal(err)
		}
	}
	if err := producer.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := docs.Info(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if !answered(ctx, producer, "$JS.API.INFO", "") { // its own responses arrive after those
		t.Fatal("the producer has no answers of its own")
	}
	for len(heard) > 0 {
		if subject := <-heard; !strings.HasPrefix(subject, "_INBOX.") {
			t.Errorf("it hears %s", subject)
		}
	}
}

// An incompatible data folder is refused before any change, so that the version that wrote it can still open it.
func TestOpen_IncompatibleFolderIsLeftUnchanged(t *testing.T) {
	s := natstest.StartEmbedded(t)
	openDocuments(t, s.Store())
	natstest.Publish(t, s.Store(), natstest.Documents(1, 7)...)
	s.Stop()
	dir := s.Config().Dir
	mark := filepath.Join(dir, "server.json")
	current, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"newer":   `{"format":99,"cluster":"","server":"loaderd"}`,
		"no mark": "",
	} {
		err := os.WriteFile(mark, []byte(text), 0o600)
		if text == "" {
			err = os.Remove(mark)
		}
		if err != nil {
			t.Fatal(err)
		}
		before := natstest.ReadFolder(t, dir)
		for _, open := range []func(context.Context, stream.Config, *slog.Logger) (*stream.Store, error){stream.Open,
			stream.OpenExclusive} {
			store, err := open(natstest.Context(t), s.Config(), quiet())
			if err == nil {
				store.Close()
				t.Fatalf("%s: the folder was opened", name)
			}
			if !strings.Contains(err.Error(), "incompatible version of loaderd") || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: error %v does not name the folder and the reason", name, err)
			}
		}
		if after := natstest.ReadFolder(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: the refused start changed the folder", name)
		}
	}
	if err := os.WriteFile(mark, current, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	holds(t, s.Store(), 7)
}

// The tokens are in files that only their owner may read, persist, and are refused if other users can read the files.
func TestTokenFiles_ArePrivateAndPersist(t *testing.T) {
	s := natstest.StartEmbedded(t)
	read := func(file string) string {
		name := filepath.Join(s.Config().Dir, file)
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 600", name, info.Mode(), err)
		}
		text, err := os.ReadFile(name)
		if err != nil || len(text) < 64 {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		return string(text)
	}
	operator, producer := read(server.OperatorFile), read(server.ProducerFile)
	s.Restart()
	if read(server.OperatorFile) != operator || read(server.ProducerFile) != producer || operator == producer {
		t.Error("the tokens are others after a restart, or one is the other")
	}
	// While the server runs: if the file is removed, a new token is created and the old one is no longer valid.
	old := natstest.URLWithToken(s.Store().ClientURL(), s.Config().Dir, server.ProducerFile)
	inside, err := nats.Connect(old)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	if err := os.Remove(filepath.Join(s.Config().Dir, server.ProducerFile)); err != nil {
		t.Fatal(err)
	}
	if err := s.Store().Reloaders()["nats tokens"].Reload(); err != nil {
		t.Fatal(err)
	}
	if read(server.ProducerFile) == producer {
		t.Error("the token is the same after its file was deleted")
	}
	if _, err := nats.Connect(old); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("with the old token: %v", err)
	}
	if err := inside.FlushTimeout(time.Minute); err != nil {
		t.Errorf("who was connected: %v", err)
	}
	s.Stop()
	if err := os.Chmod(filepath.Join(s.Config().Dir, server.OperatorFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if store, err := stream.Open(natstest.Context(t), s.Config(), quiet()); err == nil ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a token that others can read: %v, %v", store, err)
	}
}

// A command without a token, or with a producer's, immediately gets an error that names the required token. It does
// not wait for a response that never arrives.
func TestOpen_WithoutOperatorTokenNamesToken(t *testing.T) {
	s := natstest.StartEmbedded(t)
	c := s.Config()
	c.URL, c.Dir = s.Store().ClientURL(), t.TempDir()
	if _, err := stream.Open(natstest.Context(t), c, quiet()); !errors.Is(err, nats.ErrAuthorization) ||
		!strings.Contains(err.Error(), "operator.token") {
		t.Errorf("without a token: %v", err)
	}
	c.TokenFile = filepath.Join(s.Config().Dir, server.ProducerFile)
	if _, err := stream.Open(natstest.Context(t), c, quiet()); err == nil ||
		!strings.Contains(err.Error(), "operator.token") {
		t.Errorf("with a producer's: %v", err)
	}
	store, err := stream.OpenProducer(natstest.Context(t), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
}
