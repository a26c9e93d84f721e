package conn_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
	"loaderd/stream/conn"
)

// A client leaves a silent server if it has another one. It stays with its only server, which may just be slow.
func TestLiveness_ClientLeavesUnresponsiveServer(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	var log natstest.LogBuffer
	several, err := conn.Dial(natstest.TimeoutContext(t, time.Minute),
		conn.Options{URL: c.Config().URL, ReconnectWait: reconnectWait}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer several.Close()
	frozen := 0
	for i := range 3 {
		if c.URL(i) == several.Conn().ConnectedUrl() {
			frozen = i
		}
	}
	one := c.Store(frozen)
	began := time.Now()
	c.Freeze(frozen)
	natstest.Eventually(t, "the client is connected to another server", func() bool {
		return several.Status().Connected && several.Conn().ConnectedUrl() != c.URL(frozen)
	})
	t.Logf("it left the silent server after %v", time.Since(began))
	// The client calls its handlers after it has reconnected. Other causes end the connection later too.
	natstest.Eventually(t, "the log names the silence as the reason", func() bool {
		return strings.Contains(log.String(), "the server has fallen silent")
	})
	if st := one.Status(); !st.Connected {
		t.Errorf("who knows no other server has left it: %v", st.Err)
	}
	c.Thaw(frozen)
	if _, err := one.JetStream().AccountInfo(natstest.TimeoutContext(t, time.Minute)); err != nil {
		t.Errorf("the connection to the only server: %v", err)
	}
}

// A server that is cut off from the cluster continues to respond for a long time. Its clients move to the majority.
func TestLiveness_ClientLeavesIsolatedServer(t *testing.T) {
	if !testscale.All() {
		t.Skip("it takes half a minute: make test-all")
	}
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	s := c.Store()
	cutOff := 0
	for i := range 3 {
		if c.URL(i) == s.ClientURL() {
			cutOff = i
		}
	}
	began := time.Now()
	c.Isolate(cutOff)
	natstest.Eventually(t, "the client is connected to another server", func() bool {
		return s.Status().Connected && s.ClientURL() != c.URL(cutOff)
	})
	t.Logf("it left the server after %v", time.Since(began))
	// The majority may briefly consider one of its own servers offline.
	natstest.Eventually(t, "the majority has the stream", func() bool {
		_, err := s.EnsureDocuments(natstest.Context(t))
		return err == nil
	})
}
