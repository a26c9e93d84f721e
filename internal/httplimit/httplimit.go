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
	headerWithin = 5 * time.Second
	bodyWithin   = 15 * time.Second
	writeWithin  = 30 * time.Second // for a caller to read the data of one write
	idleWithin   = time.Minute
	maxHeader    = 16 << 10
	// maxRequests bounds the open requests of an HTTP/2 connection, window the unread bytes of their bodies.
	maxRequests = 64
	window      = 64 << 10
	// identifyWithin is the maximum time of a connection without an identified request, over any number of requests.
	identifyWithin = 30 * time.Second
	// spares are connections for health checks if all others serve identified requests.
	spares = 16
)

// Config describes a Server.
type Config struct {
	Handler http.Handler
	// Open reports whether a request needs no identity, such as a health check.
	Open func(*http.Request) bool
	// Identified reports whether the caller of a request is identified, by the headers only.
	Identified func(*http.Request) bool
	// MaxConnections bounds connections, MaxConnectionsPerHost those of one host.
	MaxConnections, MaxConnectionsPerHost int
	Log                                   *slog.Logger
}

// Listen returns a listener that bounds the connections of l.
func (c Config) Listen(l net.Listener) *connlimit.Listener {
	return connlimit.New(l, connlimit.Config{Max: c.MaxConnections, MaxPerHost: c.MaxConnectionsPerHost, Spare: spares,
		IdentifyWithin: identifyWithin, Log: c.Log})
}

// Server returns a server for connections of Listen.
func (c Config) Server() *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(c.serve),
		ReadHeaderTimeout: headerWithin,
		ReadTimeout:       bodyWithin,
		IdleTimeout:       idleWithin,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxRequests, MaxReceiveBufferPerConnection: window,
			MaxReceiveBufferPerStream: window},
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
	out := newTimely(w)
	if q.ContentLength == 0 {
		BodyRead(out)
	}
	conn, ok := q.Context().Value(connKey{}).(*connlimit.Conn)
	switch {
	case !ok:
	case c.Open(q):
		conn.Served()
	default:
		if conn.Spare() {
			out.Header().Set("Connection", "close")
			http.Error(out, "too many connections", http.StatusServiceUnavailable)
			return
		}
		if c.Identified(q) {
			defer conn.Identified()()
		}
	}
	c.Handler.ServeHTTP(out, q)
}

// BodyRead records that the body of a request has been read. The response may take longer than the body's deadline.
func BodyRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // an error means that no deadline exists
}

// timely is a writer whose caller must read the data of each write within writeWithin, unless a handler sets
// deadlines itself.
type timely struct {
	http.ResponseWriter
	control *http.ResponseController
	own     bool
}

func newTimely(w http.ResponseWriter) *timely {
	t := &timely{ResponseWriter: w, control: http.NewResponseController(w)}
	t.extend()
	return t
}

// extend sets a new deadline. An error means that no deadline exists.
func (t *timely) extend() {
	if !t.own {
		_ = t.control.SetWriteDeadline(time.Now().Add(writeWithin))
	}
}

func (t *timely) Write(b []byte) (int, error) {
	t.extend()
	return t.ResponseWriter.Write(b)
}

func (t *timely) WriteHeader(code int) {
	t.extend()
	t.ResponseWriter.WriteHeader(code)
}

// SetWriteDeadline makes the handler responsible for all deadlines of this response.
func (t *timely) SetWriteDeadline(at time.Time) error {
	t.own = true
	return t.control.SetWriteDeadline(at)
}

// Unwrap returns the writer below, for http.ResponseController.
func (t *timely) Unwrap() http.ResponseWriter { return t.ResponseWriter }

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
