package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// httpServer serves /metrics, /healthz and /readyz.
type httpServer struct {
	server *http.Server
	listen net.Listener
	ended  chan error
}

func listenHTTP(address string, d *Daemon) (*httpServer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w: choose a free address", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.metrics, promhttp.HandlerOpts{}))
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
	return &httpServer{&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, l, make(chan error, 1)}, nil
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
		return fmt.Errorf("the NATS server has been out of reach since %s: %s", s.Since.Format(time.RFC3339), s.Error)
	}
	switch s := d.run.Stats(); {
	case s.Trouble != "":
		return errors.New(s.Trouble)
	case s.Replaying:
		return fmt.Errorf("re-planning after a restart: at document %d", s.Cursor)
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

func (h *httpServer) url() string { return "http://" + reachable(h.listen.Addr().String()) }

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
