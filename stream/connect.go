package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnStatus is the state of the connection to JetStream.
type ConnStatus struct {
	Connected bool      // the server can be reached and, when it is embedded, can write its streams
	Since     time.Time // when Connected became what it is
	Error     string    // the last error; empty when there was none since the last connect
}

// status is the connection's state as the client's callbacks tell it.
type status struct {
	mu      sync.Mutex
	now     ConnStatus
	checked time.Time // when the embedded server's health was looked at
	up      context.Context
	lose    context.CancelFunc // ends up
	closed  bool               // no connection follows, whatever the client still tells
}

func newStatus() *status {
	s := &status{}
	s.up, s.lose = context.WithCancel(context.Background())
	return s
}

// connection ends when the present connection is lost; an answer to what was asked over it will never come.
func (s *status) connection() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

// lost and restored are told by the client.

func (s *status) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose()
	s.setLocked(false, err)
}

func (s *status) restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose() // a client that reconnects without word of a loss
	if s.closed {
		return
	}
	s.up, s.lose = context.WithCancel(context.Background())
	s.setLocked(true, nil)
}

// close ends the present connection for good.
func (s *status) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.lose()
}

func (s *status) setLocked(connected bool, err error) {
	if s.now.Connected != connected || s.now.Since.IsZero() {
		s.now.Since = time.Now()
	}
	s.now.Connected = connected
	switch {
	case err != nil:
		s.now.Error = err.Error()
	case connected:
		s.now.Error = ""
	}
}

// fail notes an error that leaves the connection as it is.
func (s *status) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Error = err.Error()
}

// connect makes the connection. It retries within ctx what waiting can heal.
func connect(ctx context.Context, cfg Config, e *embedded, st *status, log *slog.Logger) (*nats.Conn, error) {
	opts, err := connectOptions(cfg, e, st, log)
	if err != nil {
		return nil, err
	}
	if e != nil {
		nc, err := nats.Connect("", opts...)
		if err != nil {
			return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
		}
		return nc, nil
	}
	servers := servers(cfg.URL)
	wait := retryDelay(cfg.ReconnectWait)
	for attempt := 1; ; attempt++ {
		nc, err := nats.Connect(cfg.URL, opts...)
		if err == nil {
			return nc, nil
		}
		if advice, final := diagnose(err); final {
			return nil, fmt.Errorf("connect to NATS at %s: %w: %s", servers, err, advice)
		}
		if advice := notNATS(ctx, cfg.URL, err); advice != "" {
			return nil, fmt.Errorf("connect to NATS at %s: %w: %s", servers, err, advice)
		}
		log.Warn("NATS cannot be reached, trying again", "servers", servers, "attempt", attempt, "error", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to NATS at %s: %w (%w after %d attempts): is the server up, and stream.url right?", servers, err,
				context.Cause(ctx), attempt)
		case <-time.After(wait(attempt)):
		}
	}
}

func connectOptions(cfg Config, e *embedded, st *status, log *slog.Logger) ([]nats.Option, error) {
	wait := retryDelay(cfg.ReconnectWait)
	opts := []nats.Option{
		nats.Name("loaderd"),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials are sometimes replaced while the daemon runs
		nats.CustomReconnectDelay(wait),
		// Nothing is held back while the connection is down: a caller must know that its message did not leave.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second),
		nats.Timeout(5 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil {
				err = errors.New("connection lost")
			}
			st.lost(err)
			log.Warn("connection to NATS lost, reconnecting", "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			st.restored()
			log.Info("connection to NATS is back", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { st.fail(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			st.fail(err)
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("NATS reports an error", "subject", subject, "error", err)
		}),
		nats.NoCallbacksAfterClientClose(),
	}
	if e != nil {
		return append(opts, nats.InProcessServer(e.server)), nil
	}
	if cfg.TLS.CA != "" {
		opts = append(opts, nats.RootCAs(cfg.TLS.CA))
	}
	if cfg.TLS.Cert != "" {
		opts = append(opts, nats.ClientCert(cfg.TLS.Cert, cfg.TLS.Key))
	}
	if cfg.Credentials != "" {
		opts = append(opts, nats.UserCredentials(cfg.Credentials))
	}
	if cfg.NKey != "" {
		opt, err := nats.NkeyOptionFromSeed(cfg.NKey)
		if err != nil {
			return nil, fmt.Errorf("read NKey seed %s (stream.nkey): %w", cfg.NKey, err)
		}
		opts = append(opts, opt)
	}
	return opts, nil
}

// diagnose says what to do about an error of the first connect, and whether trying again is of no use.
func diagnose(err error) (advice string, final bool) {
	var (
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		alert     tls.AlertError
		record    tls.RecordHeaderError
		path      *fs.PathError
	)
	switch {
	case errors.As(err, &authority):
		return "the server's certificate is not signed by a known authority: set stream.tls.ca", true
	case errors.As(err, &hostname):
		return "the server's certificate is for another name: use a name that it holds in stream.url", true
	case errors.As(err, &verify), errors.As(err, &alert), errors.As(err, &record), strings.Contains(err.Error(), "remote error: tls"):
		return "TLS failed: check stream.tls and the server's TLS settings", true
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return "client and server disagree on TLS: use tls:// in stream.url exactly when the server has TLS", true
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired), errors.Is(err, nats.ErrNkeysNotSupported),
		strings.Contains(strings.ToLower(err.Error()), "authorization violation"), strings.Contains(strings.ToLower(err.Error()), "nkeys"):
		return "the server does not accept these credentials: check stream.credentials, stream.nkey or the user in stream.url", true
	case errors.As(err, &path), strings.Contains(err.Error(), "error loading"), strings.Contains(err.Error(), "error parsing"),
		strings.Contains(err.Error(), "failed to parse"):
		return "a file that stream.tls, stream.credentials or stream.nkey names cannot be used", true
	}
	return "", false
}

// retryDelay grows from 50 ms to limit, with jitter, so that many clients of one server do not come back at one moment.
func retryDelay(limit time.Duration) func(attempts int) time.Duration {
	return func(attempts int) time.Duration {
		d := min(limit, 50*time.Millisecond<<min(max(attempts-1, 0), 16))
		return d/2 + rand.N(d/2+1)
	}
}

func servers(urls string) string {
	var out []string
	for _, u := range strings.Split(urls, ",") {
		out = append(out, redacted(u))
	}
	return strings.Join(out, ", ")
}
