package arrowout_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"loaderd/arrowout"
	"loaderd/internal/auth"
)

const (
	pathOfWatch  = "/grpc.health.v1.Health/Watch"
	pathOfCheck  = "/grpc.health.v1.Health/Check"
	pathOfSchema = "/arrow.flight.protocol.FlightService/GetSchema"
	pathOfDoGet  = "/arrow.flight.protocol.FlightService/DoGet"
)

// attacker is a client that writes arbitrary HTTP/2 frames.
type attacker struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	out    bytes.Buffer // not sent yet
	fields bytes.Buffer
	hpack  *hpack.Encoder
	next   uint32 // next stream id

	settings int // settings frames that the server has not acknowledged
}

func attack(t testing.TB, s *arrowout.Server) *attacker {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return attackOver(t, conn)
}

// attackOver is attack over an existing connection, which the caller closes.
func attackOver(t testing.TB, conn net.Conn) *attacker {
	a := &attacker{t: t, conn: conn, next: 1, settings: 1}
	a.framer, a.hpack = http2.NewFramer(&a.out, conn), hpack.NewEncoder(&a.fields)
	a.out.WriteString(http2.ClientPreface)
	a.must(a.framer.WriteSettings())
	return a
}

func (a *attacker) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// call writes the headers of a call, with additional fields, and no message.
func (a *attacker) call(path string, metadata ...string) (stream uint32) {
	a.fields.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "attack", "content-type",
		"application/grpc", "te", "trailers"}, metadata...)
	for ; len(fields) > 0; fields = fields[2:] {
		a.must(a.hpack.WriteField(hpack.HeaderField{Name: fields[0], Value: fields[1], Sensitive: true}))
	}
	stream, a.next = a.next, a.next+2
	block := a.fields.Bytes()
	const most = 16 << 10
	first := min(len(block), most)
	a.must(a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:first],
		EndHeaders: first == len(block)}))
	for block = block[first:]; len(block) > 0; {
		n := min(len(block), most)
		a.must(a.framer.WriteContinuation(stream, n == len(block), block[:n]))
		block = block[n:]
	}
	return stream
}

// flush sends the buffered frames. It returns false if the server has closed the connection.
func (a *attacker) flush() bool {
	_, err := a.out.WriteTo(a.conn)
	return err == nil
}

// served sends the buffered frames and waits until the server has read all of them, or has closed the connection.
func (a *attacker) served() (open bool) {
	a.must(a.framer.WriteSettings())
	a.settings++
	if !a.flush() {
		return false
	}
	for a.settings > 0 {
		f, err := a.framer.ReadFrame()
		if err != nil {
			return false
		}
		if x, ok := f.(*http2.SettingsFrame); ok && x.IsAck() {
			a.settings--
		}
	}
	return true
}

// asking starts a server that requires a token.
func asking(t testing.TB, change func(*arrowout.Config)) (*arrowout.Server, func(string) float64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	return metered(t, newFake(40, 4, 64), func(c *arrowout.Config) {
		c.TokenFile = file
		if change != nil {
			change(c)
		}
	})
}

func TestServer_BoundsMetadataOfCalls(t *testing.T) {
	s, _ := asking(t, nil)
	before, value := inUse(), strings.Repeat("x", 1<<20)
	for range 4 {
		a := attack(t, s)
		for range 16 {
			a.call(pathOfCheck, "a", value)
			if !a.flush() {
				break
			}
		}
		a.served()
		a.out.Reset()
	}
	if took := inUse() - before; took > 16<<20 {
		t.Errorf("64 calls with 1 MiB of metadata each hold %d MiB", took>>20)
	}
}

func TestServer_BoundsCallsWithoutIdentity(t *testing.T) {
	s, metric := asking(t, nil)
	before := runtime.NumGoroutine()
	const connections, calls = 40, 200
	for i := range connections {
		a := attack(t, s)
		for range calls {
			a.call([]string{pathOfSchema, pathOfDoGet, pathOfCheck, pathOfWatch}[i%4])
		}
		if !a.served() {
			t.Fatal("the connection is closed")
		}
	}
	if n := runtime.NumGoroutine() - before; n > 256*3+connections*4 {
		t.Errorf("%d calls whose message does not arrive hold %d goroutines", connections*calls, n)
	}
	if n := metric("errors_total LIMITED"); n < connections*calls*9/10 {
		t.Errorf("%.0f of %d calls are refused", n, connections*calls)
	}
}

func TestServer_BoundsOpenCallsOfAConnection(t *testing.T) {
	s, _ := metered(t, newFake(40, 4, 64), func(*arrowout.Config) {})
	before := runtime.NumGoroutine()
	a := attack(t, s)
	for range 5000 {
		a.call(pathOfDoGet)
	}
	a.served()
	if n := runtime.NumGoroutine() - before; n > 256*3 {
		t.Errorf("5000 calls of a connection hold %d goroutines", n)
	}
}

func TestServer_DoesNotWatchHealth(t *testing.T) {
	s, _ := asking(t, nil)
	conn, err := grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, err := grpc_health_v1.NewHealthClient(conn).Watch(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

func TestServer_ClosesConnectionsThatResetCalls(t *testing.T) {
	s, _ := metered(t, newFake(40, 4, 64), func(*arrowout.Config) {})
	for _, path := range []string{pathOfDoGet, pathOfSchema, pathOfCheck} {
		a := attack(t, s)
		resets := 0
		for open := true; open && resets < 50_000; {
			for range 100 {
				a.must(a.framer.WriteRSTStream(a.call(path), http2.ErrCodeCancel))
				resets++
			}
			open = a.served()
		}
		if resets > 2000 {
			t.Errorf("%s: %d calls of a connection are reset", path, resets)
		}
	}
	r := mustGet(t, dial(t, s), `{}`) // another client on the same host
	for step := range 40 {
		if !r.Next() {
			t.Fatalf("step %d: %v", step, r.Err())
		}
	}
}

func TestServer_BoundsResetsOfIdentityOverConnections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identities.json")
	good := let(t, file, auth.Identity{Name: "good", Role: auth.Read})
	bad := let(t, file, auth.Identity{Name: "bad", Role: auth.Read})
	s, _ := metered(t, newFake(40, 4, 64), func(c *arrowout.Config) { c.Identities = file })
	const ofConnection, connections = 400, 60 // the client may cancel 400 calls per connection
	for n := 0; ; n++ {
		if n == connections {
			t.Fatalf("an identity may give up %d calls", connections*ofConnection)
		}
		a := attack(t, s)
		open := true
		for sent := 0; open && sent < ofConnection; sent += 100 {
			for range 100 {
				a.must(a.framer.WriteRSTStream(a.call(pathOfSchema, "authorization", "Bearer "+bad), http2.ErrCodeCancel))
			}
			open = a.served()
		}
		_ = a.conn.Close()
		if !open {
			break
		}
	}
	stream, err := dial(t, s).DoGet(withToken(good), &flight.Ticket{Ticket: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Errorf("a reader of the same host: %v", err)
	}
}

func TestServer_AcceptsReadersDuringPingFlood(t *testing.T) {
	for name, change := range map[string]func(*arrowout.Config){
		"of all":     func(c *arrowout.Config) { c.MaxConnections = 20 },
		"of a host":  func(c *arrowout.Config) { c.MaxConnectionsPerHost = 20 },
		"with calls": func(c *arrowout.Config) { c.MaxConnections = 20 },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := metered(t, newFake(40, 4, 64), change)
			for range 60 {
				a := attack(t, s)
				if name == "with calls" {
					a.call(pathOfCheck)
				}
				if !a.served() {
					t.Fatal("a connection is refused")
				}
			}
			r := mustGet(t, dial(t, s), `{}`)
			for step := range 40 {
				if !r.Next() {
					t.Fatalf("step %d: %v", step, r.Err())
				}
			}
		})
	}
}

func TestServer_KeepsReadersWhenConnectionsFlood(t *testing.T) {
	s, _ := metered(t, newFake(40, 4, 64), func(c *arrowout.Config) { c.MaxConnections = 20 })
	r := mustGet(t, dial(t, s), `{}`)
	for step := range 40 {
		for range 10 {
			conn, err := net.Dial("tcp", s.Addr().String())
			if errors.Is(err, syscall.ECONNRESET) {
				continue // too many connections of this host
			}
			if err != nil {
				t.Fatal(err)
			}
			attackOver(t, conn).served()
			defer conn.Close() //nolint:errcheck // it may be closed
		}
		if !r.Next() {
			t.Fatalf("step %d: %v", step, r.Err())
		}
	}
}

func TestServer_SamplesFailedHandshakes(t *testing.T) {
	a := newAuthority(t, "a")
	cert, key, _, _ := a.issue(t, "server", false)
	cfg := arrowout.Default()
	cfg.Listen, cfg.Cert, cfg.Key = "127.0.0.1:0", cert, key
	var log syncBuffer
	s, _ := meteredBy(t, cfg, newFake(1, 4, 16), slog.New(slog.NewTextHandler(&log, nil)))
	const many = 50 // below the burst of connections without a request
	for range many {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
		_, _ = io.Copy(io.Discard, c) // until the server has closed it
		c.Close()
	}
	if n := strings.Count(log.String(), "TLS handshake failed"); n < 1 || n > 30 {
		t.Errorf("%d lines for %d failed handshakes", n, many)
	}
}
