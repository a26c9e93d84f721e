package conn_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"

	"loaderd/internal/natstest"
	"loaderd/stream/conn"
)

// A Flight server, which does not greet a NATS client, is distinguished from a NATS server that does not respond.
func TestDial_DistinguishesFlightServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	flight := grpc.NewServer()
	go func() { _ = flight.Serve(l) }()
	defer flight.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at := "nats://" + l.Addr().String()
	said := conn.ExplainHTTP2(ctx, "nats://"+natstest.FreeAddress(t)+", "+at, nats.ErrTimeout)
	if !strings.Contains(said, l.Addr().String()) || !strings.Contains(said, "Flight server") {
		t.Errorf("of a Flight server it reports %q", said)
	}
	if said := conn.ExplainHTTP2(ctx, natstest.Start(t).Store().ClientURL(), nats.ErrTimeout); said != "" {
		t.Errorf("of a NATS server it reports %q", said)
	}
	if said := conn.ExplainHTTP2(ctx, at, nats.ErrNoServers); said != "" {
		t.Errorf("without a timeout it reports %q", said)
	}
}
