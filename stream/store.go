package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// Store is a connection to JetStream and, when it is embedded, the server behind it. It is safe for use by many goroutines.
type Store struct {
	*conn.Client
	config Config
	log    *slog.Logger
	server *server.Server // nil with a remote one
	made   made
	few    fewServers
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
	s := &Store{config: cfg, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	options := conn.Options{URL: cfg.URL, Credentials: cfg.Credentials, NKey: cfg.NKey, TLS: cfg.TLS, ReconnectWait: cfg.ReconnectWait}
	if cfg.Embedded() {
		s.server, err = server.Start(ctx, server.Options{Dir: cfg.Dir, Listen: cfg.Listen, MaxPayload: cfg.MaxDocument + HeaderRoom, Private: !listens,
			Cluster: cfg.Cluster}, log)
		if err != nil {
			return nil, err
		}
		options.Server = s.server
	}
	if s.Client, err = conn.Dial(ctx, options, log); err != nil {
		return nil, err
	}
	return s, nil
}

// Config returns the configuration that the Store was opened with.
func (s *Store) Config() Config { return s.config }

// Close ends the connection and stops the embedded server, within bounded time. What was acknowledged is on disk already.
func (s *Store) Close() error {
	if s.Client != nil {
		s.Client.Close()
	}
	if s.server != nil {
		return s.server.Stop()
	}
	return nil
}
