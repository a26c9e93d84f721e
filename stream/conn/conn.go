// Package conn is a client's connection to JetStream: it connects, reports its state, reconnects, and retries requests
// while that can help.
package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/event"
)

// Options configure a connection: the servers and the identity of the client.
type Options struct {
	// URL lists NATS servers, comma separated. Unused with a Server.
	URL string
	// Credentials is a NATS credentials file; NKey an NKey seed file.
	Credentials, NKey string
	// Login returns, at every connection, the user and the token for a server inside a daemon. A nil Login and an
	// empty user mean that there is none. The token is sent to a Server only; at a URL it signs the server's nonce.
	// Token is sent as it is.
	Login func() (user, token string)
	Token string
	// Inbox is the prefix of the subjects that receive responses, empty for the default _INBOX. A client with permission
	// for this prefix can neither receive nor forge responses on another prefix.
	Inbox string
	TLS   TLS
	// ReconnectWait is the longest pause between two attempts, of a connection or a request.
	ReconnectWait time.Duration
	// Server is a server inside this process, nil to connect by URL.
	Server Server
}

// TLS are files for TLS to remote servers.
type TLS struct {
	CA   string `koanf:"ca"`
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
}

// Server is a NATS server inside this process.
type Server interface {
	nats.InProcessConnProvider
	// URL returns the address for other clients.
	URL() string
	// Health returns nil while every stream can be written. Clients call it often; all calls share one cached result.
	Health() error
	// CheckHealth returns the result of a check that starts now.
	CheckHealth() error
}

// Client is a connection to JetStream. It is safe for use by many goroutines.
type Client struct {
	nc               *nats.Conn
	js               jetstream.JetStream
	log              *slog.Logger
	options          Options
	clustered        atomic.Bool // at least one server was a member of a cluster
	deniedOperations sync.Map    // operations that were denied to this client
	api              string      // prefix of the subjects of JetStream's API
	status           *status
	stop             context.CancelFunc // ends the background goroutines ...
	goroutines       sync.WaitGroup     // ... which this counts
}

// Dial connects and waits until JetStream responds. It retries errors that can pass (no server reachable, no leader
// yet) until ctx ends, and returns every other error immediately.
func Dial(ctx context.Context, o Options, log *slog.Logger) (_ *Client, err error) {
	running, stop := context.WithCancel(context.Background())
	c := &Client{log: log, options: o, status: newStatus(), stop: stop}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	l := &trackingDialer{}
	if c.nc, err = connect(ctx, o, c.status, l, log); err != nil {
		return nil, err
	}
	if o.Server == nil {
		c.goroutines.Go(func() { l.closeSilent(running, c.nc) })
	}
	c.status.setRestored()
	if c.js, err = jetstream.New(c.nc); err != nil {
		return nil, fmt.Errorf("make JetStream client: %w", err)
	}
	c.api = apiPrefix(c.js.Options())
	if err := c.awaitJetStream(ctx); err != nil {
		return nil, err
	}
	if o.Server == nil {
		c.goroutines.Go(func() { c.closeCutOff(running, l) })
	}
	return c, nil
}

// awaitJetStream waits until JetStream responds. A cluster without a leader responds later, a server without
// JetStream never does.
func (c *Client) awaitJetStream(ctx context.Context) error {
	where := c.ClientURL()
	if v := c.nc.ConnectedServerVersion(); !versionAtLeast(v, 2, 12) {
		return fmt.Errorf("connect to NATS at %s: server version %s: want 2.12 or later, which has atomic batches", where, v)
	}
	wait := c.Backoff()
	for attempt, limit := 1, minAccountTimeout; ; attempt, limit = attempt+1, min(2*limit, maxAccountTimeout) {
		err := c.requestAccount(ctx, limit)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("connect to NATS at %s: %w: enable JetStream for the account of these credentials", where, err)
		}
		c.log.Warn("JetStream does not answer, trying again", event.JetStreamUnavailable, "server", where, "attempt", attempt,
			"error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("connect to NATS at %s: %w (%w): is JetStream enabled there, and has the cluster a leader?", where,
				err, context.Cause(ctx))
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// A cluster drops requests while it has no leader, so the first attempts are short.
const (
	minAccountTimeout = 250 * time.Millisecond
	maxAccountTimeout = 2 * time.Second
)

// requestAccount requests the account information from JetStream and waits at most limit for the response.
func (c *Client) requestAccount(ctx context.Context, limit time.Duration) error {
	attempt, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	_, err := c.js.AccountInfo(attempt)
	if err != nil && attempt.Err() != nil {
		return context.Cause(attempt)
	}
	return err
}

func versionAtLeast(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(version, "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// Conn returns the connection itself. While it is down, publishing fails immediately instead of buffering.
func (c *Client) Conn() *nats.Conn { return c.nc }

// JetStream returns the connection's JetStream context.
func (c *Client) JetStream() jetstream.JetStream { return c.js }

// Options returns the options that the client was created with.
func (c *Client) Options() Options { return c.options }

// Log returns the client's logger.
func (c *Client) Log() *slog.Logger { return c.log }

// apiPrefix returns the prefix of the client library's own requests.
func apiPrefix(o jetstream.JetStreamOptions) string {
	if o.Domain != "" {
		return "$JS." + o.Domain + ".API"
	}
	return cmp.Or(strings.TrimSuffix(o.APIPrefix, "."), strings.TrimSuffix(jetstream.DefaultAPIPrefix, "."))
}

// API returns the subject of a request that the client library does not support: an operation and the names it acts
// on.
func (c *Client) API(operation string, names ...string) string {
	return strings.Join(append([]string{c.api, operation}, names...), ".")
}

// ClientURL returns the address at which any NATS client can connect.
func (c *Client) ClientURL() string {
	if c.options.Server != nil {
		return c.options.Server.URL()
	}
	return c.nc.ConnectedUrlRedacted()
}

// Status reports whether streams can be read and written, for readiness and as the cause of a stall.
func (c *Client) Status() Status {
	var failed error
	if c.options.Server != nil {
		failed = c.options.Server.Health() // may block, and requests take the lock
	}
	st := c.status
	st.mu.Lock()
	defer st.mu.Unlock()
	if c.options.Server == nil {
		return st.current
	}
	if failed != nil {
		st.setLocked(false, failed)
	} else if !st.current.Connected && c.nc.IsConnected() {
		st.setLocked(true, nil)
	}
	return st.current
}

// CheckHealth returns an error if the embedded server cannot write every stream now. It returns nil for other servers.
func (c *Client) CheckHealth() error {
	if c.options.Server == nil {
		return nil
	}
	return c.options.Server.CheckHealth()
}

// Close ends the connection.
func (c *Client) Close() {
	c.status.close()
	c.stop()
	if c.nc != nil {
		c.nc.Close()
	}
	c.goroutines.Wait()
}
