package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"loaderd/internal/auth"
	"loaderd/internal/config"
	"loaderd/internal/httplimit"
	"loaderd/internal/webui"
	"loaderd/loader/fault"
	"loaderd/stream/server"
)

// httpServer serves the live page with its JSON, /metrics, /healthz and /readyz.
type httpServer struct {
	server       *http.Server
	page         *webui.Page
	certificates *auth.Certificates
	listener     net.Listener
	address      string
	serveErr     chan error
}

// maxScrapes limits the number of concurrent requests for metrics.
const maxScrapes = 8

func listenHTTP(c config.HTTP, d *Daemon) (*httpServer, error) {
	certificates, err := auth.OpenCertificates(c.Cert, c.Key, "")
	if err != nil {
		return nil, fmt.Errorf("http.cert: %w", err)
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w: choose a free address", err)
	}
	limits := httplimit.Config{IsOpen: isHealthCheck, IsIdentified: d.isIdentified, MaxConnections: c.MaxConnections,
		MaxConnectionsPerHost: c.MaxConnectionsPerHost, Log: d.log}
	h := &httpServer{certificates: certificates, listener: limits.Listen(l), address: l.Addr().String(),
		serveErr: make(chan error, 1)}
	if t := certificates.Config("h2", "http/1.1"); t != nil {
		h.listener = tls.NewListener(h.listener, t)
	}
	names := c.Names
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "" {
		names = append(slices.Clone(names), host)
	}
	d.flight.Gate().SetPageAddress(h.address)
	asks := func() bool { return d.flight.Gate().RequiresAuth() && !d.canReadWithoutToken() }
	h.page = webui.New(webui.Config{Actions: d.flight, RequiresAuth: asks, MayRead: c.Insecure, HostNames: names,
		Log: d.log})
	h.page.Handle("GET /metrics", d.requireRole(auth.Read,
		promhttp.HandlerFor(d.metrics, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes})))
	h.page.Handle("GET /healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-d.done:
			http.Error(w, d.stopReason().Error(), http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok")
		}
	}))
	h.page.Handle("GET /readyz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := d.checkReady(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	}))
	limits.Handler = h.page
	h.server = limits.Server()
	h.server.RegisterOnShutdown(h.page.Close)
	return h, nil
}

// requireRole serves next to callers that have the role, authenticated as on the Flight server, within their request
// rate.
func (d *Daemon) requireRole(role auth.Role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		from := webui.CallerOf(q)
		from.MayRead = d.config.HTTP.Insecure
		who, err := d.flight.AuthorizeScrape(q.Context(), from, q.URL.Path)
		var refused *fault.Error
		switch {
		case errors.As(err, &refused) && refused.Reason == fault.InvalidToken:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.As(err, &refused) && refused.Reason == fault.Limited:
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		case err != nil:
			http.Error(w, err.Error(), http.StatusForbidden)
		case !who.Role.Includes(role):
			http.Error(w, fmt.Sprintf("identity %s lacks permission: this needs the role %s", who, role), http.StatusForbidden)
		default:
			next.ServeHTTP(w, q)
		}
	})
}

// isHealthCheck reports whether a request is a health check, which needs no identity because load balancers have none.
func isHealthCheck(q *http.Request) bool { return q.URL.Path == "/healthz" || q.URL.Path == "/readyz" }

// isIdentified reports whether the caller of a request is authenticated, or may read without a token.
func (d *Daemon) isIdentified(q *http.Request) bool {
	_, err := d.flight.Gate().Identify(q.Header.Values("Authorization"), nil)
	return err == nil || d.canReadWithoutToken()
}

// canReadWithoutToken reports whether HTTP callers may read without a token although Flight requires the token of the
// data folder.
func (d *Daemon) canReadWithoutToken() bool {
	return d.config.HTTP.Insecure && d.flight.Gate().HasOnlyOwnToken()
}

// checkReady returns nil if a reader that connects now can expect steps, else the reason.
func (d *Daemon) checkReady() error {
	select {
	case <-d.done:
		return d.stopReason()
	default:
	}
	if d.stopping.Load() {
		return errors.New("the daemon is stopping")
	}
	if s := d.store.Status(); !s.Connected {
		since := s.Since.Format(time.RFC3339)
		if failed := (*server.StorageError)(nil); errors.As(s.Err, &failed) {
			return fmt.Errorf("the streams have not been writable since %s: %w", since, failed)
		}
		return fmt.Errorf("the NATS server has been unreachable since %s: %w", since, s.Err)
	}
	switch s := d.run.Stats(); {
	case !d.run.HasLeader():
		return errors.New("no daemon has led the run yet")
	case s.StreamProblem != "":
		return errors.New(s.StreamProblem)
	case s.Replaying:
		return fmt.Errorf("replaying the plan after a restart: at document %d", s.Cursor)
	}
	if v := d.run.Verdict(); v.Reason == fault.StreamFull {
		return errors.New(v.Line())
	}
	return nil
}

// stopReason returns the reason why the daemon has stopped serving. It is valid after ended is closed.
func (d *Daemon) stopReason() error {
	if d.err != nil {
		return fmt.Errorf("the run has stopped: %w", d.err)
	}
	return errors.New("the daemon is stopping")
}

func (h *httpServer) url() string {
	scheme := "http://"
	if h.certificates.Config() != nil {
		scheme = "https://"
	}
	return scheme + dialAddress(h.address)
}

func (h *httpServer) start() {
	go func() {
		if err := h.server.Serve(h.listener); !errors.Is(err, http.ErrServerClosed) {
			h.serveErr <- err
		}
	}()
}

func (h *httpServer) shutdown(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		err = h.server.Close()
	}
	// A server that never served does not close its listener.
	if e := h.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}
