package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Store is a connection to JetStream and, when it is embedded, the server behind it. It is safe for use by many goroutines.
type Store struct {
	config Config
	log    *slog.Logger
	nc     *nats.Conn
	js     jetstream.JetStream
	server *embedded // nil with a remote server
	status *status
	made   made
}

// Open starts the embedded server or connects to the remote ones. It waits and retries where waiting can help (no server
// reachable), until ctx ends; everything else fails at once.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	return open(ctx, cfg, true, log)
}

// OpenAlone opens the data folder of an embedded server for this process alone: nobody else can connect, so that the server takes no port.
func OpenAlone(ctx context.Context, cfg Config, log *slog.Logger) (*Store, error) {
	if !cfg.Embedded() {
		return nil, fmt.Errorf("open data folder %s: stream.url names servers elsewhere", cfg.Dir)
	}
	return open(ctx, cfg, false, log)
}

func open(ctx context.Context, cfg Config, listens bool, log *slog.Logger) (_ *Store, err error) {
	var bad []error
	for _, e := range cfg.Validate() {
		bad = append(bad, fmt.Errorf("stream.%w", e))
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	s := &Store{config: cfg, log: log, status: newStatus()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if cfg.Embedded() {
		if s.server, err = startEmbedded(ctx, cfg, listens, log); err != nil {
			return nil, err
		}
	}
	if s.nc, err = connect(ctx, cfg, s.server, s.status, log); err != nil {
		return nil, err
	}
	s.status.restored()
	if s.js, err = jetstream.New(s.nc); err != nil {
		return nil, fmt.Errorf("make JetStream client: %w", err)
	}
	if err := s.awaitJetStream(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// awaitJetStream waits for a JetStream that answers: a cluster without a leader answers later, a server without JetStream never.
func (s *Store) awaitJetStream(ctx context.Context) error {
	where := s.ClientURL()
	if v := s.nc.ConnectedServerVersion(); !atLeast(v, 2, 12) {
		return fmt.Errorf("connect to NATS at %s: server version %s: want 2.12 or later, which has atomic batches", where, v)
	}
	wait := retryDelay(s.config.ReconnectWait)
	for attempt := 1; ; attempt++ {
		_, err := s.js.AccountInfo(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("connect to NATS at %s: %w: enable JetStream for the account of these credentials", where, err)
		}
		s.log.Warn("JetStream does not answer, trying again", "server", where, "attempt", attempt, "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("connect to NATS at %s: %w (%w): is JetStream enabled there, and has the cluster a leader?", where, err, context.Cause(ctx))
		case <-time.After(wait(attempt)):
		}
	}
}

func atLeast(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(version, "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// Config returns the configuration that the Store was opened with.
func (s *Store) Config() Config { return s.config }

// Conn is the connection itself. While it is down, publishing fails at once instead of being held back.
func (s *Store) Conn() *nats.Conn { return s.nc }

// JetStream is the connection's JetStream context.
func (s *Store) JetStream() jetstream.JetStream { return s.js }

// ClientURL is where any NATS client can connect.
func (s *Store) ClientURL() string {
	if s.server != nil {
		return s.server.url
	}
	return s.nc.ConnectedUrlRedacted()
}

// Status says whether documents can be read and written, for readiness and as the cause of a stall.
func (s *Store) Status() ConnStatus {
	st := s.status
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.server != nil && time.Since(st.checked) >= time.Second {
		st.checked = time.Now()
		if err := s.server.health(); err != nil || s.nc.IsConnected() {
			st.setLocked(err == nil, err)
		}
	}
	return st.now
}

// Close ends the connection and stops the embedded server, within bounded time. What was acknowledged is on disk already.
func (s *Store) Close() error {
	s.status.close()
	if s.nc != nil {
		s.nc.Close()
	}
	if s.server != nil {
		return s.server.stop()
	}
	return nil
}
