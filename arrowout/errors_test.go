package arrowout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/arrowout"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// infoOf returns the ErrorInfo of an error and checks that it has the given code.
func infoOf(t testing.TB, err error, code codes.Code) *errdetails.ErrorInfo {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code {
		t.Fatalf("got %v, want code %v", err, code)
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			if info.Domain != arrowout.Domain {
				t.Fatalf("domain %q", info.Domain)
			}
			return info
		}
	}
	t.Fatalf("no ErrorInfo in %v", err)
	return nil
}

func TestErrors_OfRunReachReader(t *testing.T) {
	dry := &fault.Error{Reason: fault.SourceDry, Message: "every document has been read", Advice: "publish more",
		Facts: map[string]string{"last": "17"}, Err: errors.New("secret")}
	for name, place := range map[string]func(*fakeRun, error){
		"join": func(f *fakeRun, err error) {
			f.onJoin = func(context.Context, state.RankID, uint64) error { return err }
		},
		"next": func(f *fakeRun, err error) { f.onNext = func(context.Context, uint64) error { return err } },
		"end":  func(f *fakeRun, err error) { f.last = err },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(2, 4, 16)
			place(f, fmt.Errorf("wait for step 2: %w", dry))
			r, _, err := get(t, dial(t, serve(t, f)), `{}`)
			if err == nil {
				for r.Next() {
				}
				err = r.Err()
			}
			info := infoOf(t, err, codes.Unavailable)
			if info.Reason != "SOURCE_DRY" || info.Metadata["last"] != "17" {
				t.Errorf("got %v", info)
			}
			if want := "SOURCE_DRY: every document has been read; publish more"; status.Convert(err).Message() != want {
				t.Errorf("got %q, want %q", status.Convert(err).Message(), want)
			}
		})
	}
}

func TestErrors_HaveArrowTrailers(t *testing.T) {
	c := dial(t, serve(t, newFake(1, 4, 16)))
	var trailer metadata.MD
	_, err := c.GetFlightInfo(context.Background(), &flight.FlightDescriptor{Type: flight.DescriptorCMD,
		Cmd: []byte("é\xff")}, grpc.Trailer(&trailer))
	if infoOf(t, err, codes.InvalidArgument).Reason != "INVALID_TICKET" {
		t.Error(err)
	}
	if fmt.Sprint(trailer["x-arrow-status"], trailer["x-arrow-status-message-bin"]) != fmt.Sprintf("[4] [%s]",
		status.Convert(err).Message()) {
		t.Errorf("trailers %v", trailer)
	}
	stream, err := c.DoGet(context.Background(), &flight.Ticket{Ticket: []byte(`{"rank":9}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = stream.Recv(); infoOf(t, err, codes.InvalidArgument).Reason != "INVALID_TICKET" {
		t.Error(err)
	}
	if stream.Trailer()["x-arrow-status"][0] != "4" || len(stream.Trailer()["grpc-status-details-bin"]) != 1 {
		t.Errorf("trailers %v", stream.Trailer())
	}
}

func TestTicket_TooLargeIsRefused(t *testing.T) {
	_, _, err := get(t, dial(t, serve(t, newFake(1, 4, 16))), `{"run":"`+strings.Repeat("x", 70000)+`"}`)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
}

// logs is a writer for concurrent use.
type logs struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *logs) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

func TestServer_SurvivesPanicOfRun(t *testing.T) {
	f := newFake(2, 4, 16)
	f.onNext = func(_ context.Context, step uint64) error {
		if step == 1 {
			panic("secret state")
		}
		return nil
	}
	f.act = func(string, uint64) (uint64, error) { panic("in an action") }
	var out logs
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	reg := prometheus.NewRegistry()
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(f), slog.New(slog.NewTextHandler(&out, nil)), reg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	c := dial(t, s)
	for range 3 {
		r := mustGet(t, c, `{}`)
		if !r.Next() || r.Next() {
			t.Fatal("want one step, then the panic")
		}
		if info := infoOf(t, r.Err(), codes.Internal); info.Reason != "INTERNAL" ||
			strings.Contains(r.Err().Error(), "secret") {
			t.Errorf("got %v", r.Err())
		}
		_, err := act(c, "seal", "")
		infoOf(t, err, codes.Internal)
	}
	if f.readers.Load() != 0 {
		t.Errorf("%d readers are open", f.readers.Load())
	}
	if !strings.Contains(out.String(), "secret state") || !strings.Contains(out.String(), "fake_test.go") {
		t.Errorf("the log lacks the panic or its stack:\n%s", out.String())
	}
	want := `
# HELP loaderd_flight_errors_total Calls that ended with an error, by reason.
# TYPE loaderd_flight_errors_total counter
loaderd_flight_errors_total{reason="INTERNAL"} 6
# HELP loaderd_flight_open_streams Open DoGet streams.
# TYPE loaderd_flight_open_streams gauge
loaderd_flight_open_streams 0
# HELP loaderd_flight_batches_total Record batches passed to gRPC.
# TYPE loaderd_flight_batches_total counter
loaderd_flight_batches_total 3
# HELP loaderd_flight_rows_total Rows of the batches passed to gRPC.
# TYPE loaderd_flight_rows_total counter
loaderd_flight_rows_total 12
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "loaderd_flight_errors_total",
		"loaderd_flight_open_streams",
		"loaderd_flight_batches_total", "loaderd_flight_rows_total"); err != nil {
		t.Error(err)
	}
}

// act carries out an action and returns its results, one per line.
func act(c flight.Client, name, body string) (string, error) {
	stream, err := c.DoAction(context.Background(), &flight.Action{Type: name, Body: []byte(body)})
	if err != nil {
		return "", err
	}
	var all []string
	for {
		r, err := stream.Recv()
		if err == io.EOF {
			return strings.Join(all, "\n"), nil
		}
		if err != nil {
			return "", err
		}
		all = append(all, string(r.Body))
	}
}
