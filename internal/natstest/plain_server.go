package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// StartPlain runs a NATS server without the daemon's settings on a free loopback port, and returns its address. It
// ends with the test.
func StartPlain(t testing.TB, opts *server.Options) string {
	t.Helper()
	return StartPlainServer(t, opts).Addr().String()
}

// StartPlainServer is Plain, but returns the server itself.
func StartPlainServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.Port, opts.NoSigs, opts.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, t.TempDir()
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("natstest: the server does not listen")
	}
	return s
}
