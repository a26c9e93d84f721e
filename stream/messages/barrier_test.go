package messages_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream/messages"
)

// A client that may not purge a stream accepts the leader's response. Any other client gets it confirmed, or an
// error.
func TestTryBarrier_ClientWithoutPurgePermission(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3, func(c *natstest.ClusterConfig) {
		c.Users = []*server.User{{Username: "reader", Password: "r", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.PURGE.*"}}}}}
	})
	s, ctx := c.Store(), natstest.TimeoutContext(t, time.Minute)
	open, err := s.EnsureDocuments(ctx)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := s.JetStream().CreateStream(ctx, jetstream.StreamConfig{Name: "CLOSED", Subjects: []string{"closed"},
		Replicas: 3, DenyPurge: true})
	if err != nil {
		t.Fatal(err)
	}
	c.AwaitSync("DOCS", "CLOSED")
	if err := messages.Barrier(ctx, s.Client, closed); err == nil {
		t.Error("a stream that denies purges takes a barrier")
	}
	config := c.Config()
	config.URL = strings.ReplaceAll(config.URL, "nats://", "nats://reader:r@")
	reader := natstest.Open(t, config)
	defer reader.Close()
	ofReader, err := reader.JetStream().Stream(ctx, "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	for what, confirm := range map[string]func() error{
		"a stream":                          func() error { return messages.TryBarrier(ctx, s.Client, open) },
		"one that denies purges":            func() error { return messages.TryBarrier(ctx, s.Client, closed) },
		"one that the client may not purge": func() error { return messages.TryBarrier(ctx, reader.Client, ofReader) },
	} {
		if err := confirm(); err != nil {
			t.Errorf("%s: Confirm = %v", what, err)
		}
	}
	old := c.Leader("DOCS")
	cutOff := c.Store(old)
	ofCutOff, err := cutOff.JetStream().Stream(ctx, "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	c.Isolate(old)
	if err := messages.TryBarrier(ctx, cutOff.Client, ofCutOff); err == nil {
		t.Error("Confirm takes the word of a leader that is cut off")
	}
}
