package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/stream"
)

// onceWithin is the time limit of a single connection attempt.
const onceWithin = 5 * time.Second

// Opener opens a Store: stream.Open, or stream.OpenProducer.
type Opener func(context.Context, stream.Config, *slog.Logger) (*stream.Store, error)

// Connect establishes the first connection within wait, or within onceWithin if wait is 0. A connection that is lost
// later is re-established without a time limit.
func Connect(ctx context.Context, config stream.Config, wait time.Duration, log *slog.Logger,
	open Opener) (*stream.Store, error) {
	wait = cmp.Or(wait, onceWithin)
	first, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	store, err := open(first, config, log)
	if err == nil {
		return store, nil
	}
	if ctx.Err() != nil || !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) {
		return nil, NameFlags(err)
	}
	servers, why := dialServers(ctx, config.URL)
	if why == nil {
		return nil, NameFlags(err)
	}
	return nil, Unreachable(fmt.Errorf(
		"cannot connect to NATS at %s: no server reachable within %v: %w: start loaderd serve, "+
			"or name the servers with --daemon",
		servers, wait, why))
}

// dialServers dials the servers to find the reason why none is reachable, which the NATS client does not return. The
// server names contain no passwords.
func dialServers(ctx context.Context, urls string) (servers string, why error) {
	var names, causes []string
	for raw := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil {
			continue // refused by an earlier attempt
		}
		names = append(names, u.Redacted())
		dial := net.Dialer{Timeout: 2 * time.Second}
		conn, err := dial.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
		if err == nil {
			_ = conn.Close() // only tests that the server accepts connections
			continue
		}
		causes = append(causes, err.Error())
	}
	if len(causes) > 0 {
		why = errors.New(strings.Join(causes, "; "))
	}
	return strings.Join(names, ", "), why
}

// flagNamed is an error about settings. Its text names the flags of the settings, not their configuration keys.
type flagNamed struct{ error }

// NameFlags returns err with flags in place of configuration keys.
func NameFlags(err error) error { return flagNamed{err} }

var keyFlags = strings.NewReplacer(
	"stream.tls.ca", "--tls-ca", "stream.tls.cert", "--tls-cert", "stream.tls.key", "--tls-key", "stream.tls",
	"--tls-ca, --tls-cert",
	"stream.url", "--daemon", "stream.credentials", "--creds", "stream.nkey", "--nkey",
	"stream.token_file", "--token-file",
	"stream.name", "--stream", "stream.subject", "--subject",
)

func (e flagNamed) Error() string { return keyFlags.Replace(e.error.Error()) }

func (e flagNamed) Unwrap() error { return e.error }
