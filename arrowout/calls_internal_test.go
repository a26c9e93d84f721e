package arrowout

import (
	"context"
	"testing"

	"google.golang.org/grpc/tap"

	"loaderd/internal/access"
)

func TestCalls_EndWithoutTheirMessage(t *testing.T) {
	gate, err := access.Open(access.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCalls(&guard{gate: gate}, newLimits(Default()))
	c.requestWithin = 1
	ctx, err := c.admit(context.Background(), &tap.Info{FullMethodName: "/arrow.flight.protocol.FlightService/DoGet"})
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}
