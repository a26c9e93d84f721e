// Package natstest runs real JetStream servers for tests: on loopback, on a free port, in the test's temporary
// folder. A test has one server, or a cluster whose members it stops, wipes, cuts off, delays and freezes. With
// LOADERD_TEST_CLUSTER=3 in the environment, tests that accept any kind of server get a cluster of three.
package natstest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/stream"
	"loaderd/stream/server"
)

// startTimeout bounds the start of a server on a busy machine.
const startTimeout = time.Minute

// Server is an embedded server that can be stopped and restarted on the same folder and port, or a cluster of servers
// that can be stopped and restarted together. It ends with the test.
type Server struct {
	t       testing.TB
	config  stream.Config
	cluster *Cluster // nil for an embedded server

	mu    sync.Mutex
	store *stream.Store // nil while it is stopped
}

// Config returns the configuration of a separate server for the test: small bounds, a temporary folder and a free
// port.
func Config(t testing.TB) stream.Config {
	t.Helper()
	c := stream.Default()
	c.Dir = t.TempDir()
	c.Listen = "127.0.0.1:0"
	c.MaxBytes = 1 << 30
	c.DeadLetterBytes = 64 << 20
	c.PlanBytes = 256 << 20
	c.ReconnectWait = 100 * time.Millisecond
	return c
}

// ClusterSecret creates a file with a secret for the members of a cluster.
func ClusterSecret(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cluster.secret")
	if err := os.WriteFile(name, []byte("the-secret-of-the-members\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// FreeAddress returns an unused loopback address. Its port is below the range that systems assign to connections and
// to port 0, so that it is still free when a killed daemon restarts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	const first, ports, attempts = 10_000, 20_000, 100
	for range attempts {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(ports))))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// Start starts a server, or a cluster if the environment configures one. edit may change its configuration first.
func Start(t testing.TB, edit ...func(*stream.Config)) *Server {
	t.Helper()
	if n := clusterSize(t); n > 0 {
		c := StartCluster(t, n, func(c *ClusterConfig) {
			for _, f := range edit {
				f(&c.Stream)
			}
		})
		s := &Server{t: t, config: c.Config(), cluster: c}
		t.Cleanup(s.Stop)
		s.store = Open(t, s.config)
		return s
	}
	return StartEmbedded(t, edit...)
}

// clusterSize returns the number of servers that the environment configures; 0 for a single server.
func clusterSize(t testing.TB) int {
	text := os.Getenv("LOADERD_TEST_CLUSTER")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 || n > 5 {
		t.Fatalf("LOADERD_TEST_CLUSTER is %q, want 2 to 5 servers", text)
	}
	return n
}

// StartEmbedded is Start for tests of the embedded server itself: its folder, its port, its bounds.
func StartEmbedded(t testing.TB, edit ...func(*stream.Config)) *Server {
	t.Helper()
	s := &Server{t: t, config: Config(t)}
	for _, f := range edit {
		f(&s.config)
	}
	t.Cleanup(s.Stop)
	s.Restart()
	return s
}

// Store returns a Store on the server, in process for an embedded one. It changes with every Restart.
func (s *Server) Store() *stream.Store {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		s.t.Fatal("natstest: the server is stopped")
	}
	return s.store
}

// Config returns the configuration of Store, with the actual port of the running server.
func (s *Server) Config() stream.Config { return s.config }

// Stop stops the server. Its clients are disconnected.
func (s *Server) Stop() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return
	}
	if err := s.store.Close(); err != nil {
		s.t.Errorf("natstest: stop server: %v", err)
	}
	s.store = nil
	if s.cluster != nil {
		s.cluster.stopAll()
	}
}

// Restart restarts the server on the same folder and port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if s.cluster != nil {
		s.cluster.startAll()
	}
	store := Open(s.t, s.config)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
	if s.cluster == nil {
		s.config.Listen = store.ClientURL()[len("nats://"):]
	}
}

// OpenRemote opens a Store over TCP, as a daemon with stream.url does. It closes with the test.
func (s *Server) OpenRemote() *stream.Store {
	s.t.Helper()
	return s.OpenRemoteAt(s.Store().ClientURL())
}

// OpenRemoteAt is Remote through another address, such as a Link's.
func (s *Server) OpenRemoteAt(url string) *stream.Store {
	s.t.Helper()
	c := s.config
	if s.cluster == nil {
		c.TokenFile = filepath.Join(c.Dir, server.OperatorFile)
	}
	c.URL, c.Dir, c.Listen = url, "", ""
	return openStore(s.t, c)
}

// URL returns the address of a Store's server for any client, with all permissions in the account of the documents.
func URL(s *stream.Store) string {
	return URLWithToken(s.ClientURL(), s.Config().Dir, server.OperatorFile)
}

// URLWithToken returns a server's URL with a token of a data folder, if the folder has that token.
func URLWithToken(url, dir, file string) string {
	token, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil || dir == "" { // a server without accounts
		return url
	}
	return strings.Replace(url, "://", "://user:"+strings.TrimSpace(string(token))+"@", 1)
}

// openStore opens a Store that closes with the test.
func openStore(t testing.TB, c stream.Config) *stream.Store {
	t.Helper()
	store := Open(t, c)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("natstest: close store: %v", err)
		}
	})
	return store
}

// Open opens a Store that the test must close, and fails the test on an error.
func Open(t testing.TB, c stream.Config) *stream.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	store, err := stream.Open(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("natstest: open store: %v", err)
	}
	return store
}
