package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"loaderd/stream/server"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

func start(t *testing.T, o server.Options) (*server.Server, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.Listen, o.MaxPayload = "127.0.0.1:0", 1<<20
	return server.Start(ctx, o, slog.New(slog.DiscardHandler))
}

// One server holds a data folder, which records its client address. The folder is free after the server stops.
func TestServer_OnePerFolder(t *testing.T) {
	dir := t.TempDir()
	for _, private := range []bool{false, true, false} {
		s, err := start(t, server.Options{Dir: dir, Private: private})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := start(t, server.Options{Dir: dir}); !errors.Is(err, server.ErrFolderInUse) {
			t.Errorf("a second server: %v", err)
		}
		if held := server.HolderURL(dir); held != s.URL() || (held == "") != private {
			t.Errorf("the folder names %q, the server %q, private %v", held, s.URL(), private)
		}
		if err := s.Health(); err != nil {
			t.Error(err)
		}
		if free, err := s.DiskFree(); err != nil || free <= 0 {
			t.Errorf("%d bytes are free, %v", free, err)
		}
		inside, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo(s.ProcessLogin(server.Documents)))
		if err != nil {
			t.Fatal(err)
		}
		inside.Close()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// The server refuses clients that bypass the proxy, whatever their token, because the proxy enforces the limits
// on producers.
func TestServer_RefusesClientsPastTheProxy(t *testing.T) {
	dir := t.TempDir()
	s, err := start(t, server.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for user, file := range map[server.User]string{server.Documents: server.OperatorFile,
		server.Producer: server.ProducerFile} {
		token, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		password := strings.TrimSpace(string(token))
		past, err := s.InProcessConn()
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(past)
		lines.Scan() // INFO
		fmt.Fprintf(past, "CONNECT {\"user\":%q,\"pass\":%q}\r\n", user, password)
		if lines.Scan(); !strings.Contains(lines.Text(), "Authorization Violation") {
			t.Errorf("%s past the proxy gets %q, %v", user, lines.Text(), lines.Err())
		}
		past.Close()
		nc, err := nats.Connect(s.URL(), nats.UserInfo(string(user), password))
		if err != nil {
			t.Errorf("%s over the proxy: %v", user, err)
			continue
		}
		nc.Close()
	}
}

// The token of a data folder is for the announced address only: the same port of another loopback address may belong
// to another process.
func TestTokenFor_OnlyAnnouncedAddress(t *testing.T) {
	dir := t.TempDir()
	s, err := start(t, server.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	port := s.URL()[strings.LastIndex(s.URL(), ":"):]
	for address, found := range map[string]bool{
		s.URL(): true, s.URL() + "/": true, "tls://127.0.0.1" + port: true, "nats://127.0.0.1" + port: true,
		"nats://[::1]" + port: false, "nats://localhost" + port: false, "nats://127.0.0.2" + port: false,
		"nats://[::ffff:127.0.0.1]" + port: false,
		"nats://127.0.0.1":                 false, "nats://127.0.0.1:1": false, "127.0.0.1" + port: false,
		"nats://": false, "": false,
	} {
		for _, operator := range []bool{false, true} {
			if token := server.FindToken(dir, address, operator); (token != "") != found {
				t.Errorf("%s: token found %t, want %t", address, token != "", found)
			}
		}
	}
}
