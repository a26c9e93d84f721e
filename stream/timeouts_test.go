package stream_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream"
)

// A server of a cluster may report "stream not found" for a stream that it has not received yet. The report counts
// only after a while.
func TestTimeouts_StreamNotFoundIsFinalAfterTimeout(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	var said natstest.LogBuffer
	s, err := stream.Open(natstest.Context(t), c.Config(), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	missing, found := errors.New("missing"), make(chan error, 1)
	find := func() {
		_, err := s.Find(natstest.Context(t), "it", "DOCS", missing)
		found <- err
	}
	go find()
	natstest.Eventually(t, "it is looked for again", func() bool {
		return len(found) > 0 || strings.Contains(said.String(), "trying again")
	})
	if _, err := c.Store().EnsureDocuments(natstest.Context(t)); err != nil {
		t.Error(err)
	}
	if err := <-found; err != nil {
		t.Errorf("a stream that was made meanwhile: %v", err)
	}
	if err := s.JetStream().DeleteStream(natstest.Context(t), "DOCS"); err != nil {
		t.Fatal(err)
	}
	if find(); !errors.Is(<-found, missing) {
		t.Error("that there is no stream is not believed")
	}
	refusals(t, s, true)
}

// A standalone server never finds peers later.
func TestRetryEnsure_StandaloneServerDoesNotRetry(t *testing.T) {
	refusals(t, natstest.StartEmbedded(t).Store(), false)
}

// refusals checks whether a store retries after a cluster refuses a stream because servers are down.
func refusals(t *testing.T, s *stream.Store, again bool) {
	t.Helper()
	for _, tt := range []struct {
		said  string
		again bool
	}{{"no suitable peers for placement, peer offline", again}, {"no suitable peers for placement", false}} {
		asked := 0
		err := s.RetryEnsure(natstest.Context(t), func(context.Context) error {
			if asked++; asked > 2 {
				return nil
			}
			return &jetstream.APIError{Code: 400, ErrorCode: 10005, Description: tt.said}
		})
		if (err == nil) != tt.again || (asked == 3) != tt.again {
			t.Errorf("%q: asked %d times, %v", tt.said, asked, err)
		}
	}
}
