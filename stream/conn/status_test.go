package conn_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/natstest"
	"loaderd/stream/conn"
)

// hanging is a server inside this process whose health check blocks.
type hanging struct {
	*server.Server
	asked, release chan struct{}
}

func (s *hanging) URL() string        { return s.ClientURL() }
func (s *hanging) CheckHealth() error { return nil }

func (s *hanging) Health() error {
	close(s.asked)
	<-s.release
	return nil
}

// While the server's health check hangs with its disk, requests time out by their own limits.
func TestStatus_HangingHealthCheckBlocksNoRequest(t *testing.T) {
	t.Parallel()
	in := &hanging{natstest.StartPlainServer(t, &server.Options{JetStream: true, NoLog: true}), make(chan struct{}),
		make(chan struct{})}
	c, err := conn.Dial(natstest.TimeoutContext(t, time.Minute), conn.Options{Server: in, ReconnectWait: reconnectWait},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	status := make(chan struct{})
	go func() {
		defer close(status)
		c.Status()
	}()
	<-in.asked
	attempt := make(chan error, 1)
	go func() {
		attempt <- c.Attempt(natstest.Context(t), time.Minute, func(context.Context) error { return nil })
	}()
	select {
	case err := <-attempt:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a request waits for the health check")
	}
	close(in.release)
	<-status
}
