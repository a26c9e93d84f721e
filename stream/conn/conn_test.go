package conn_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/stream/conn"
)

const reconnectWait = 200 * time.Millisecond

// dial connects to a new server.
func dial(t *testing.T) *conn.Client {
	t.Helper()
	url := "nats://" + natstest.StartPlain(t, &server.Options{JetStream: true})
	c, err := conn.Dial(natstest.TimeoutContext(t, time.Minute), conn.Options{URL: url, ReconnectWait: reconnectWait},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClient_BackoffGrowsToItsBound(t *testing.T) {
	c := dial(t)
	b := c.Backoff()
	for attempt := range 40 {
		mean := min(50*time.Millisecond<<min(attempt, 10), reconnectWait)
		if d := b.NextBackOff(); d > mean || d < mean/4 {
			t.Errorf("pause %d is %v, want up to %v", attempt+1, d, mean)
		}
	}
	if b.Reset(); b.NextBackOff() > 50*time.Millisecond {
		t.Error("after a reset it pauses longer than at first")
	}
}

// Subjects of manual requests follow the domain or prefix that the client library is configured with.
func TestClient_API(t *testing.T) {
	c := dial(t)
	if got, want := c.API("STREAM.MSG.GET", "LOG"), "$JS.API.STREAM.MSG.GET.LOG"; got != want {
		t.Errorf("it asks on %s, want %s", got, want)
	}
	domain, err := jetstream.NewWithDomain(c.Conn(), "hub")
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := jetstream.NewWithAPIPrefix(c.Conn(), "mine.js")
	if err != nil {
		t.Fatal(err)
	}
	for want, js := range map[string]jetstream.JetStream{"$JS.hub.API": domain, "mine.js": prefix,
		"$JS.API": c.JetStream()} {
		if got := conn.APIPrefix(js.Options()); got != want {
			t.Errorf("prefix %s, want %s", got, want)
		}
	}
}

// A read from a replica that lags briefly is retried without a log message. A replica that stays behind is logged.
func TestClient_RetriesReadFromLaggingReplica(t *testing.T) {
	for _, tt := range []struct{ behind, told int }{{3, 0}, {6, 1}} {
		var log bytes.Buffer
		url := "nats://" + natstest.StartPlain(t, &server.Options{JetStream: true})
		c, err := conn.Dial(natstest.TimeoutContext(t, time.Minute), conn.Options{URL: url, ReconnectWait: reconnectWait},
			slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		left := tt.behind
		err = c.Retry(natstest.Context(t), "read", func(context.Context) error {
			if left == 0 {
				return nil
			}
			left--
			return conn.ErrReplicaLagging
		})
		c.Close()
		if told := strings.Count(log.String(), "trying again"); err != nil || told != tt.told {
			t.Errorf("behind %d times: %v, told %d times, want %d", tt.behind, err, told, tt.told)
		}
	}
}
