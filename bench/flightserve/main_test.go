package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"loaderd/arrowout"
	"loaderd/internal/api"
	"loaderd/internal/flightclient"
)

// TestServe_OverFlightAndRawSocket reads as the measured client does: a step over Flight, and bytes over the raw
// socket.
func TestServe_OverFlightAndRawSocket(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	said, says := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, cfg, "127.0.0.1:0", newPrebuilt(4, 1024, 3, ""), says) }()
	var flight, raw string
	if _, err := fmt.Fscanf(said, "flight %s raw %s\n", &flight, &raw); err != nil {
		t.Fatal(err)
	}

	client, err := flightclient.Open("grpc://"+flight, flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	err = client.Read(ctx, api.Ticket{World: 2}, func(b flightclient.Batch) error {
		if b.L != 1024 || b.Rows != 2 {
			t.Errorf("step %d has %d rows of %d, want 2 of 1024", steps, b.Rows, b.L)
		}
		steps++
		return nil
	})
	if err != nil || steps != 3 {
		t.Errorf("%d steps were read, want 3: %v", steps, err)
	}
	client.Close()

	c, err := net.Dial("tcp", raw)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := binary.Write(c, binary.LittleEndian, uint64(3<<20|5)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n != 3<<20|5 || err != nil {
		t.Errorf("%d bytes arrived: %v", n, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
