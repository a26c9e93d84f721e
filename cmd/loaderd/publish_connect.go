package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/corpus"
	"loaderd/stream"
)

var fingerprintForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// check finds what is wrong with the command line itself.
func (f *publishFlags) check(paths []string, tokens bool) error {
	if f.config.URL == "" {
		return errors.New("--nats is empty: want the address of a NATS server")
	}
	if (f.config.TLS.Cert == "") != (f.config.TLS.Key == "") {
		return errors.New("want --tls-cert and --tls-key together")
	}
	for _, e := range f.config.Validate() {
		return flagNamed{fmt.Errorf("stream.%w", e)}
	}
	if err := stream.CheckSource(f.source); err != nil {
		return fmt.Errorf("--source: %w", err)
	}
	if err := f.corpus.Format.Check(); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	if tokens && !fingerprintForm.MatchString(f.fingerprint) {
		return fmt.Errorf("--tokenizer-fingerprint %q: want sha256: and 64 hexadecimal digits, as loaderd tokenize --fingerprint prints it", f.fingerprint)
	}
	if f.wait < 0 {
		return fmt.Errorf("--wait %v: want 0 (try once) or longer", f.wait)
	}
	for _, path := range paths {
		switch {
		case path == "-" && len(paths) > 1:
			return errors.New("- (standard input) can not be combined with other paths")
		case path == "-" && f.corpus.Format == corpus.Parquet:
			return errors.New("standard input can not be Parquet: its index is at the end, so it needs a file")
		}
	}
	return nil
}

// connect makes the first connection, within --wait. One that is lost later is waited for without bound.
func (f *publishFlags) connect(ctx context.Context, log *slog.Logger) (*stream.Store, error) {
	first, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	store, err := stream.Open(first, f.config, log)
	if err == nil {
		return store, nil
	}
	if ctx.Err() != nil || !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		return nil, flagNamed{err}
	}
	servers, why := dialServers(ctx, f.config.URL)
	if why == nil {
		return nil, flagNamed{err}
	}
	return nil, fmt.Errorf("connect to NATS at %s: cannot be reached within %v: %w: start loaderd serve, or name the servers with --nats", servers, f.wait, why)
}

// dialServers asks the network why no server could be reached: the client does not tell. The servers are named without passwords.
func dialServers(ctx context.Context, urls string) (servers string, why error) {
	var names []string
	for _, raw := range strings.Split(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil {
			continue // refused before
		}
		names = append(names, u.Redacted())
		dial := net.Dialer{Timeout: 2 * time.Second}
		conn, err := dial.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
		if err == nil {
			_ = conn.Close() // only asked whether it can be made
			continue
		}
		why = errors.Join(why, err)
	}
	return strings.Join(names, ", "), why
}

// lostConnection says whether an error comes from the way to the server, not from what was published.
func lostConnection(err error) bool {
	for _, e := range []error{
		nats.ErrConnectionClosed, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrStaleConnection, nats.ErrTimeout,
		nats.ErrNoResponders, context.DeadlineExceeded, jetstream.ErrNoStreamResponse, jetstream.ErrServerShutdown, jetstream.ErrNoHeartbeat,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// flagNamed is an error about settings that names the flags they came from, not the keys of the daemon's configuration.
type flagNamed struct{ error }

var keyFlags = strings.NewReplacer(
	"stream.tls.ca", "--tls-ca", "stream.tls.cert", "--tls-cert", "stream.tls.key", "--tls-key", "stream.tls", "--tls-ca, --tls-cert",
	"stream.url", "--nats", "stream.credentials", "--creds", "stream.nkey", "--nkey", "stream.name", "--stream", "stream.subject", "--subject",
)

func (e flagNamed) Error() string { return keyFlags.Replace(e.error.Error()) }

func (e flagNamed) Unwrap() error { return e.error }

// seldomEvery is how often the same is logged at most.
const seldomEvery = 10 * time.Second

// seldom leaves out a log record when the same message with the same error was logged a moment ago.
type seldom struct {
	slog.Handler
	mu   sync.Mutex
	said map[string]time.Time
}

func newSeldom(h slog.Handler) *seldom { return &seldom{Handler: h, said: map[string]time.Time{}} }

func (s *seldom) Handle(ctx context.Context, r slog.Record) error {
	key := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			key += "\x00" + a.Value.String()
		}
		return true
	})
	s.mu.Lock()
	last, again := s.said[key]
	left := again && r.Time.Sub(last) < seldomEvery
	if !left {
		s.said[key] = r.Time
	}
	s.mu.Unlock()
	if left {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}
