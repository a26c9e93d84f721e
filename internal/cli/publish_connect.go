package cli

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

// onceWithin bounds the first connection where it is tried once.
const onceWithin = 5 * time.Second

// opener opens a Store: stream.Open, or stream.OpenProducer.
type opener func(context.Context, stream.Config, *slog.Logger) (*stream.Store, error)

// connect makes the first connection, within --wait. One that is lost later is waited for without bound.
func (f *publishFlags) connect(ctx context.Context, log *slog.Logger, open opener) (*stream.Store, error) {
	wait := cmp.Or(f.wait, onceWithin)
	first, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	store, err := open(first, f.config, log)
	if err == nil {
		return store, nil
	}
	if ctx.Err() != nil || !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) {
		return nil, flagNamed{err}
	}
	servers, why := dialServers(ctx, f.config.URL)
	if why == nil {
		return nil, flagNamed{err}
	}
	return nil, fmt.Errorf("connect to NATS at %s: cannot be reached within %v: %w: start loaderd serve, or name the servers with --nats", servers, wait, why)
}

// dialServers asks the network why no server could be reached: the client does not tell. The servers are named without passwords.
func dialServers(ctx context.Context, urls string) (servers string, why error) {
	var names, causes []string
	for raw := range strings.SplitSeq(urls, ",") {
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
		causes = append(causes, err.Error())
	}
	if len(causes) > 0 {
		why = errors.New(strings.Join(causes, "; "))
	}
	return strings.Join(names, ", "), why
}
