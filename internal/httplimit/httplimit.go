// Package httplimit bounds the resources that callers of an HTTP server can use: the time of headers, bodies,
// responses and idle connections, the size of headers, and connections whose callers are not identified.
package httplimit

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"loaderd/internal/connlimit"
	"loaderd/internal/logsample"
)

const (
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 15 * time.Second
	writeTimeout   = 30 * time.Second // for a caller to read the data of one write
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
	// maxRequests bounds the open requests of an HTTP/2 connection, window the unread bytes of their bodies.
	maxRequests   = 64
	receiveWindow = 64 << 10
	// identifyTimeout is the maximum time of a connection without an identified request, over any number of requests.
	identifyTimeout = 30 * time.Second
	// spareConnections are connections for health checks if all others serve identified requests.
	spareConnections = 16
)

// Config describes a Server.
type Config struct {
	Handler http.Handler
	// IsOpen reports whether a request needs no identity, such as a health check.
	IsOpen func(*http.Request) bool
	// IsIdentified reports whether the caller of a request is identified, by the headers only.
	IsIdentified func(*http.Request) bool
	// MaxConnections bounds connections, MaxConnectionsPerHost those of one host.
	MaxConnections, MaxConnectionsPerHost int
	Log                                   *slog.Logger
}

// Listen returns a listener that bounds the connections of l.
func (c Config) Listen(l net.Listener) *connlimit.Listener {
	return connlimit.New(l, connlimit.Config{Max: c.MaxConnections, MaxPerHost: c.MaxConnectionsPerHost,
		Spare:           spareConnections,
		IdentifyTimeout: identifyTimeout, Log: c.Log})
}

// Server returns a server for connections of Listen.
func (c Config) Server() *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(c.serve),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxRequests, MaxReceiveBufferPerConnection: receiveWindow,
			MaxReceiveBufferPerStream: receiveWindow},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if t, ok := conn.(*tls.Conn); ok {
				conn = t.NetConn()
			}
			return context.WithValue(ctx, connKey{}, conn)
		},
		ErrorLog: log.New(errorLog{c.Log, logsample.New()}, "", 0),
	}
}

type connKey struct{}

func (c Config) serve(w http.ResponseWriter, q *http.Request) {
	out := newDeadlineWriter(w)
	if q.ContentLength == 0 {
		ClearReadDeadline(out)
	}
	conn, ok := q.Context().Value(connKey{}).(*connlimit.Conn)
	switch {
	case !ok:
	case c.IsOpen(q):
		conn.MarkServed()
	default:
		if conn.IsSpare() {
			out.Header().Set("Connection", "close")
			http.Error(out, "too many connections", http.StatusServiceUnavailable)
			return
		}
		if c.IsIdentified(q) {
			defer conn.BeginIdentified()()
		}
	}
	c.Handler.ServeHTTP(out, q)
}

// ClearReadDeadline records that the body of a request has been read. The response may take longer than the body's
// deadline.
func ClearReadDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // an error means that no deadline exists
}

// deadlineWriter is a writer whose caller must read the data of each write within writeTimeout, unless a handler sets
// deadlines itself.
type deadlineWriter struct {
	http.ResponseWriter
	control        *http.ResponseController
	customDeadline bool
}

func newDeadlineWriter(w http.ResponseWriter) *deadlineWriter {
	t := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	t.extendDeadline()
	return t
}

// extendDeadline sets a new deadline. An error means that no deadline exists.
func (t *deadlineWriter) extendDeadline() {
	if !t.customDeadline {
		_ = t.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
}

func (t *deadlineWriter) Write(b []byte) (int, error) {
	t.extendDeadline()
	return t.ResponseWriter.Write(b)
}

func (t *deadlineWriter) WriteHeader(code int) {
	t.extendDeadline()
	t.ResponseWriter.WriteHeader(code)
}

// SetWriteDeadline makes the handler responsible for all deadlines of this response.
func (t *deadlineWriter) SetWriteDeadline(at time.Time) error {
	t.customDeadline = true
	return t.control.SetWriteDeadline(at)
}

// Unwrap returns the writer below, for http.ResponseController.
func (t *deadlineWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// errorLog writes a server's log lines as structured lines, and only some of many equal ones.
type errorLog struct {
	log     *slog.Logger
	samples *logsample.Sampler
}

var _ io.Writer = errorLog{}

func (l errorLog) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if _, cause, ok := strings.Cut(line, "TLS handshake error from "); ok {
		address, cause, _ := strings.Cut(cause, ": ")
		l.samples.Log(l.log, slog.LevelInfo, "TLS handshake failed", "address", address, "error", cause)
	} else {
		l.samples.Log(l.log, slog.LevelInfo, "HTTP server", "error", line)
	}
	return len(b), nil
}
