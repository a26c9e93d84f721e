package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/server"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A stock client with the producers' token can publish. Without a token, or with a wrong one, it cannot connect.
func TestEmbeddedServer_AcceptsStockClientsWithToken(t *testing.T) {
	s := natstest.StartEmbedded(t)
	url := s.Store().ClientURL()
	for name, as := range map[string]nats.Option{"nobody": nats.Name(""),
		"a stranger": nats.Token("producer_" + strings.Repeat("0", 64)), "a user": nats.UserInfo("own", "")} {
		if nc, err := nats.Connect(url, as); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: connection %v, error %v, want ErrAuthorization", name, nc, err)
		}
	}
	ctx := natstest.TimeoutContext(t, time.Minute)
	docs, err := s.Store().EnsureDocuments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(s.Config().Dir, server.ProducerFile))
	if err != nil {
		t.Fatal(err)
	}
	for i, as := range []nats.Option{nats.Token(strings.TrimSpace(string(token))),
		nats.UserInfo("anybody", strings.TrimSpace(string(token)))} {
		nc, err := nats.Connect(url, as)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		reply, err := nc.RequestWithContext(ctx, "docs.web", []byte("hello"))
		if err != nil || !strings.Contains(string(reply.Data), fmt.Sprintf(`"seq":%d`, i+1)) {
			t.Fatalf("publish: %v, %v", reply, err)
		}
	}
	m, err := docs.GetMsg(ctx, 1)
	if err != nil || string(m.Data) != "hello" {
		t.Fatalf("document 1 = %v, %v", m, err)
	}
}

func TestDataFolder_HasMode0700(t *testing.T) {
	s := natstest.StartEmbedded(t, func(c *stream.Config) { c.Dir = filepath.Join(c.Dir, "new", "folder") })
	info, err := os.Stat(s.Config().Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("data folder has mode %o, want 700", got)
	}
}

func TestDataFolder_RefusesSecondServer(t *testing.T) {
	s := natstest.StartEmbedded(t)
	c := s.Config()
	c.Listen = "127.0.0.1:0"
	_, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, quiet())
	if !errors.Is(err, server.ErrFolderInUse) {
		t.Fatalf("error %v, want ErrFolderInUse", err)
	}
	for _, part := range []string{c.Dir, fmt.Sprintf("process %d", os.Getpid()), "stream.dir"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
	if got := s.Store().Status(); !got.Connected {
		t.Errorf("the first server suffered: %+v", got)
	}
}

func TestEmbeddedServer_PortInUseNamesAddressAndKey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := natstest.Config(t)
	c.Listen = l.Addr().String()
	_, err = stream.Open(natstest.TimeoutContext(t, time.Minute), c, quiet())
	if err == nil || !strings.Contains(err.Error(), c.Listen) || !strings.Contains(err.Error(), "stream.listen") {
		t.Fatalf("error %v, want one that names %s and stream.listen", err, c.Listen)
	}
	l.Close()
	store, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, quiet()) // the failed start released the folder
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEmbeddedServer_DocumentsSurviveRestart(t *testing.T) {
	s := natstest.StartEmbedded(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	if _, err := s.Store().EnsureDocuments(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := s.Store().JetStream().Publish(ctx, "docs.a", fmt.Appendf(nil, "document %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	url := s.Store().ClientURL()
	s.Restart()
	if got := s.Store().ClientURL(); got != url {
		t.Errorf("restarted at %s, was at %s", got, url)
	}
	docs, err := s.Store().EnsureDocuments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := docs.CachedInfo().State.LastSeq; got != 10 {
		t.Errorf("last sequence %d after the restart, want 10", got)
	}
}

// The largest document of the configuration is accepted: a producer never reaches the server's own limits first.
func TestEmbeddedServer_AcceptsLargestDocument(t *testing.T) {
	s := natstest.StartEmbedded(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	docs, err := s.Store().EnsureDocuments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	js := s.OpenRemote().JetStream()
	if _, err := js.Publish(ctx, "docs.a", make([]byte, stream.MaxDocumentLimit)); err != nil {
		t.Fatal(err)
	}
	if m, err := docs.GetMsg(ctx, 1); err != nil || len(m.Data) != stream.MaxDocumentLimit {
		t.Fatalf("read back: %v", err)
	}
	if _, err := js.Publish(ctx, "docs.a", make([]byte, stream.MaxDocumentLimit+1)); err == nil ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one byte more: error %v, want a refusal", err)
	}
	if _, err := js.Publish(ctx, "docs.a", make([]byte, 50<<20)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("50 MiB: error %v, want %v", err, nats.ErrMaxPayload)
	}
}
