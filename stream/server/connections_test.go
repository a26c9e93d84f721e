package server_test

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/stream/server"
)

// Clients without a valid token can neither exhaust the file descriptors of the process nor block clients with
// a token.
func TestServer_BoundsConnectionsWithoutToken(t *testing.T) {
	var lines logged
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	s, err := server.Start(ctx, server.Options{Dir: dir, Listen: "127.0.0.1:0", MaxPayload: 1 << 20},
		slog.New(slog.NewTextHandler(&lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	token, err := os.ReadFile(filepath.Join(dir, server.ProducerFile))
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *nats.Conn {
		nc, err := nats.Connect(s.URL(), nats.UserInfo(string(server.Producer), strings.TrimSpace(string(token))),
			nats.NoReconnect(), nats.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
	early := connect()
	defer early.Close()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	closed := func() bool { return strings.Contains(lines.text(), `msg="closed a connection" `) }
	// On a busy machine the first connections time out before the last one is opened, so more are needed.
	for begin := time.Now(); open < server.MaxConnectionsPerHost+20 ||
		!closed() && time.Since(begin) < time.Minute; open++ {
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // the server has closed it
		if info, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(info, "INFO ") {
			t.Fatalf("connection %d gets %q, %v", open, info, err)
		}
	}
	if !closed() {
		t.Errorf("%d connections are open, the log has %s", open, lines.text())
	}
	late := connect()
	defer late.Close()
	for name, nc := range map[string]*nats.Conn{"early": early, "late": late} {
		if err := nc.FlushTimeout(time.Minute); err != nil {
			t.Errorf("the %s producer: %v", name, err)
		}
	}
}

// logged collects the lines of a log.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
