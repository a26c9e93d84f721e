package arrowout_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"loaderd/arrowout"
	"loaderd/loader/state"
)

func started(t *testing.T, f *fakeRun) *arrowout.Server {
	t.Helper()
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(f), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestShutdown_EndsOpenStreamsWithReason(t *testing.T) {
	f := newFake(1, 4, 16)
	f.last = nil
	s := started(t, f)
	c := dial(t, s)
	r := mustGet(t, c, `{}`)
	if !r.Next() {
		t.Fatal(r.Err())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.Shutdown(ctx)
	if r.Next() || infoOf(t, r.Err(), codes.Unavailable).Reason != "SHUTTING_DOWN" {
		t.Errorf("got %v", r.Err())
	}
	if err := <-s.ServeErr(); err != nil {
		t.Error(err)
	}
	if f.readers.Load() != 0 {
		t.Error("a reader is still open")
	}
}

// TestShutdown_EndsJoiningReader ends a stream whose reader waits in the run, when its client cancels it and when the
// server stops.
func TestShutdown_EndsJoiningReader(t *testing.T) {
	f := newFake(1, 4, 16)
	joining := make(chan bool)
	f.onJoin = func(ctx context.Context, _ state.RankID, _ uint64) error {
		joining <- true
		<-ctx.Done()
		joining <- false
		return ctx.Err()
	}
	s := started(t, f)
	c := dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(ctx context.Context) func() error {
		stream, err := c.DoGet(ctx, &flight.Ticket{Ticket: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		<-joining
		return func() error {
			_, err := stream.Recv()
			return err
		}
	}
	cancelled, stop := context.WithCancel(ctx)
	open(cancelled)
	stop()
	<-joining
	end := open(ctx)
	go s.Shutdown(ctx)
	<-joining
	if err := end(); infoOf(t, err, codes.Unavailable).Reason != "SHUTTING_DOWN" {
		t.Errorf("got %v", err)
	}
	if err := <-s.ServeErr(); err != nil {
		t.Error(err)
	}
}

func TestShutdown_ClosesConnectionOfUnresponsiveClient(t *testing.T) {
	f := newFake(100, 4, 64<<10)
	s := started(t, f)
	c := dial(t, s, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticStreamWindowSize(64<<10))
	callCtx := t.Context()
	if _, err := c.DoGet(callCtx, &flight.Ticket{Ticket: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream is stuck", func() bool { return f.assembled.Load() >= 2 })
	s.Shutdown(context.Background()) // without a deadline, the grace period ends the wait
	if f.readers.Load() != 0 {
		t.Error("a reader is still open")
	}
	if err := <-s.ServeErr(); err != nil {
		t.Error(err)
	}
}

func TestServer_AddressInUseNamesAddressAndKey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := arrowout.Default()
	cfg.Listen = l.Addr().String()
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(newFake(0, 1, 1)), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "listen for Flight clients on "+cfg.Listen) ||
		!strings.Contains(err.Error(), "flight.listen") {
		t.Errorf("got %v", err)
	}
}
