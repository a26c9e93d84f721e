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

	"loaderd/internal/access"
	"loaderd/internal/config"
	"loaderd/internal/livepage"
	"loaderd/loader"
	"loaderd/stream/server"
)

// httpServer serves the live page with its JSON, /metrics, /healthz and /readyz.
type httpServer struct {
	server       *http.Server
	certificates *access.Certificates
	listen       net.Listener
	address      string
	ended        chan error
}

func listenHTTP(c config.HTTP, d *Daemon) (*httpServer, error) {
	certificates, err := access.OpenCertificates(c.Cert, c.Key, "")
	if err != nil {
		return nil, fmt.Errorf("http.cert: %w", err)
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w: choose a free address", err)
	}
	h := &httpServer{certificates: certificates, listen: l, address: l.Addr().String(), ended: make(chan error, 1)}
	if t := certificates.Config("h2", "http/1.1"); t != nil {
		h.listen = tls.NewListener(l, t)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", d.only(access.Read, promhttp.HandlerFor(d.metrics, promhttp.HandlerOpts{EnableOpenMetrics: true})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-d.ended:
			http.Error(w, d.over().Error(), http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok")
		}
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := d.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	names := c.Names
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "" {
		names = append(slices.Clone(names), host)
	}
	page := livepage.New(livepage.Config{Asker: d.flight, Asks: d.flight.Gate().Asks, Names: names, Log: d.log})
	mux.Handle("/", page)
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	h.server.RegisterOnShutdown(page.Close)
	return h, nil
}

// only lets those in who have a role, by the tokens of the Flight server. Health needs none, as load balancers have none.
func (d *Daemon) only(role access.Role, next http.Handler) http.Handler {
	gate := d.flight.Gate()
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if gate.Asks() {
			who, err := gate.Identify(q.Header.Values("Authorization"), nil)
			if err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			if !who.Role.Includes(role) || !who.Sees(d.config.Run) {
				http.Error(w, fmt.Sprintf("identity %s may not see this: it takes the role %s, and the run %s", who, role, d.config.Run), http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, q)
	})
}

// ready says whether a reader that connects now can expect steps.
func (d *Daemon) ready() error {
	select {
	case <-d.ended:
		return d.over()
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
		return fmt.Errorf("the NATS server has been out of reach since %s: %w", since, s.Err)
	}
	switch s := d.run.Stats(); {
	case !d.run.Led():
		return errors.New("no daemon has begun to lead the run yet")
	case s.Trouble != "":
		return errors.New(s.Trouble)
	case s.Replaying:
		return fmt.Errorf("re-planning after a restart: at document %d", s.Cursor)
	}
	if v := d.run.Verdict(); v.Reason == loader.StreamFull {
		return errors.New(v.Line())
	}
	return nil
}

// over says why the daemon serves no more. Only after ended.
func (d *Daemon) over() error {
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
	return scheme + reachable(h.address)
}

func (h *httpServer) start() {
	go func() {
		if err := h.server.Serve(h.listen); !errors.Is(err, http.ErrServerClosed) {
			h.ended <- err
		}
	}()
}

func (h *httpServer) shutdown(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		err = h.server.Close()
	}
	if e := h.listen.Close(); e != nil && !errors.Is(e, net.ErrClosed) { // a server that never served does not know its listener
		err = errors.Join(err, e)
	}
	return err
}
