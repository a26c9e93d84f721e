// Package natstest runs real JetStream servers for tests: on loopback, on a free port, in the test's temporary folder.
package natstest

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"loaderd/stream"
)

// startLimit bounds starting a server, on a machine that does much else.
const startLimit = time.Minute

// Server is an embedded server that can be stopped and started again on the same folder and port. It ends with the test.
type Server struct {
	t      testing.TB
	config stream.Config

	mu    sync.Mutex
	store *stream.Store // nil while it is stopped
}

// Config is the configuration of a server of the test's own: small bounds, a temporary folder and a free port.
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

// FreeAddress returns an address on loopback where nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Start starts a server; edit may change its configuration first.
func Start(t testing.TB, edit ...func(*stream.Config)) *Server {
	t.Helper()
	s := &Server{t: t, config: Config(t)}
	for _, f := range edit {
		f(&s.config)
	}
	t.Cleanup(s.Stop)
	s.Restart()
	return s
}

// Store is the embedded Store: server and in-process connection. It changes with every Restart.
func (s *Server) Store() *stream.Store {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		s.t.Fatal("natstest: the server is stopped")
	}
	return s.store
}

// Config is the configuration of the running server, with the port that it has.
func (s *Server) Config() stream.Config { return s.config }

// Stop stops the server. Its clients lose their connections.
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
}

// Restart starts the server, after a Stop on the same folder and port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	store := Open(s.t, s.config)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
	s.config.Listen = store.ClientURL()[len("nats://"):]
}

// Remote opens a Store over TCP, as a daemon with stream.url does. It closes with the test.
func (s *Server) Remote() *stream.Store {
	s.t.Helper()
	return s.RemoteAt(s.Store().ClientURL())
}

// RemoteAt is Remote by way of another address, such as a Link's.
func (s *Server) RemoteAt(url string) *stream.Store {
	s.t.Helper()
	c := s.config
	c.URL, c.Dir, c.Listen = url, "", ""
	store := Open(s.t, c)
	s.t.Cleanup(func() {
		if err := store.Close(); err != nil {
			s.t.Errorf("natstest: close store: %v", err)
		}
	})
	return store
}

// Open opens a Store that the test closes, and fails the test when it cannot.
func Open(t testing.TB, c stream.Config) *stream.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	store, err := stream.Open(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("natstest: open store: %v", err)
	}
	return store
}
