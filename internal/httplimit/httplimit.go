// Package httplimit bounds what callers of an HTTP server cost: the time of headers, bodies, answers and idle
// connections, the size of headers, and connections whose callers are not identified.
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
	writeWithin  = 30 * time.Second // that a caller may take to read what one write sends
	idleWithin   = time.Minute
	maxHeader    = 16 << 10
	// maxRequests bounds the open requests of a connection of HTTP/2, window the bytes of their bodies that are not read
	// yet.
	maxRequests = 64
	window      = 64 << 10
	// identifyWithin is how long a connection may stay without an identified request, in any number of requests.
	identifyWithin = 30 * time.Second
	// spares are connections for health checks where all others serve identified requests.
	spares = 16
)

// Config describes a Server.
type Config struct {
	Handler http.Handler
	// Open reports whether a request needs no identity, as that of a health check.
	Open func(*http.Request) bool
	// Identified reports whether the caller of a request is known, by its headers alone.
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

// BodyRead notes that the body of a request is read: the answer may take longer than the body.
func BodyRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // an error means that there is no deadline
}

// timely is a writer whose caller has to read what is written within writeWithin, unless a handler sets deadlines
// itself.
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

// extend sets a new deadline. An error means that there is none.
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

// SetWriteDeadline has the handler set all deadlines of this answer.
func (t *timely) SetWriteDeadline(at time.Time) error {
	t.own = true
	return t.control.SetWriteDeadline(at)
}

// Unwrap returns the writer below, for http.ResponseController.
func (t *timely) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// errorLog writes what a server logs as structured lines, some of many.
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
