package httplimit_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"loaderd/internal/httplimit"
)

// lockedBuffer is a log for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// serve starts a server with at most ten connections. /hold responds and stays open until its connection ends;
// callers must send a token there.
func serve(t *testing.T, log io.Writer, secure *tls.Config) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/hold", func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "held")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	})
	c := httplimit.Config{Handler: mux, IsOpen: func(q *http.Request) bool { return q.URL.Path == "/healthz" },
		IsIdentified:   func(q *http.Request) bool { return q.Header.Get("Authorization") != "" },
		MaxConnections: 10, MaxConnectionsPerHost: 10, Log: slog.New(slog.NewTextHandler(log, nil))}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener = c.Listen(inner)
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	s := c.Server()
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = s.Close()
		ended.Wait()
	})
	return inner.Addr().String()
}

// send opens a connection and sends a request, if it is not empty.
func send(t *testing.T, address, request string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	return c
}

// statusOf returns the status of the response over a connection.
func statusOf(t *testing.T, c net.Conn) int {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode // its body may have no end, and ends with the connection
}

const (
	healthz = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	hold    = "GET /hold HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n"
)

func TestServer_ServesHealthWithIdleConnections(t *testing.T) {
	address := serve(t, io.Discard, nil)
	const many = 35 // above the limit of connections; the closed ones are below the burst of those without a request
	for range many {
		send(t, address, "")
	}
	if got := statusOf(t, send(t, address, healthz)); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
	for range many {
		send(t, address, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx")
	}
	if got := statusOf(t, send(t, address, healthz)); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
}

func TestServer_ServesHealthWhenAllConnectionsAreBusy(t *testing.T) {
	address := serve(t, io.Discard, nil)
	for i := range 10 {
		if got := statusOf(t, send(t, address, hold)); got != http.StatusOK {
			t.Errorf("request %d: status %d", i, got)
		}
	}
	for range 3 {
		if got := statusOf(t, send(t, address, hold)); got != http.StatusServiceUnavailable {
			t.Errorf("a request beyond the limit: status %d", got)
		}
		if got := statusOf(t, send(t, address, healthz)); got != http.StatusOK {
			t.Errorf("status %d", got)
		}
	}
}

func TestServer_BoundsHeaders(t *testing.T) {
	address := serve(t, io.Discard, nil)
	c := send(t, address, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10))
	if got := statusOf(t, c); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", got)
	}
}

func TestServer_SamplesFailedHandshakes(t *testing.T) {
	var log lockedBuffer
	address := serve(t, &log, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("none")
	}})
	for range 50 { // below the burst of connections without a request
		c := send(t, address, "rubbish, not TLS\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // until the server has closed it
		_ = c.Close()
	}
	if n := strings.Count(log.String(), `msg="TLS handshake failed" address=127.0.0.1:`); n < 1 || n > 30 {
		t.Errorf("%d lines for 50 failed handshakes: %s", n, log.String())
	}
}
