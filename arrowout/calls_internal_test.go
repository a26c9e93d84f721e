package arrowout

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/tap"

	"loaderd/arrowout/internal/session"
	"loaderd/internal/auth"
	"loaderd/internal/connlimit"
)

func TestCallRegistry_EndsCallsWithoutMessage(t *testing.T) {
	gate, err := auth.Open(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCallRegistry(&interceptor{gate: gate}, func() int { return Default().MaxStreamsPerIdentity })
	c.requestTimeout = 1
	ctx, err := c.admit(context.Background(), &tap.Info{FullMethodName: "/arrow.flight.protocol.FlightService/DoGet"})
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}

func TestConnection_CountsCallsAtTheirStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := slog.New(slog.DiscardHandler)
	bounded := connlimit.New(l, connlimit.Config{Max: 1, MaxPerHost: 1, IdentifyTimeout: time.Hour, Log: log})
	limited := connectionListener{bounded, func(session.Connection) {}}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	c := accepted.(*connection)
	for range 4 * resetsBurst {
		if !c.chargeReset() {
			t.Fatal("a connection is closed although all its calls are ended by the server")
		}
		c.refundReset()
	}
	n := 0
	for n < 4*resetsBurst && c.chargeReset() { // no call has ended
		n++
	}
	if n < resetsBurst || n > 2*resetsBurst || c.chargeReset() {
		t.Errorf("%d open calls are counted as given up, want %d and then a closed connection", n, resetsBurst)
	}
}
