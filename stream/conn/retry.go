package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/event"
)

// AttemptTimeout bounds one request to the server. A request without a response is retried.
const AttemptTimeout = 5 * time.Second

const (
	// clusterTimeout bounds the first attempts in a cluster. A server that is frozen or has no leader loses the request,
	// while a retry gets a response as soon as a leader exists. After electionTime attempts get more time, because the
	// machine may be busy.
	clusterTimeout = time.Second
	electionTime   = 10 * time.Second
)

// NextTimeout returns the bound of the next attempt at an operation whose first attempt was at the time began.
func (c *Client) NextTimeout(began time.Time) time.Duration {
	if c.Clustered() && time.Since(began) < electionTime {
		return clusterTimeout
	}
	return AttemptTimeout
}

// Retry calls f until it succeeds, fails with a final error, or ctx ends. Limit bounds each attempt. What describes f
// for the log and the error.
func (c *Client) Retry(ctx context.Context, what string, f func(ctx context.Context) error) error {
	began := time.Now()
	return c.retry(ctx, func() time.Duration { return c.NextTimeout(began) }, what, f)
}

// RetryWithin is Retry with another bound for each attempt.
func (c *Client) RetryWithin(ctx context.Context, limit time.Duration, what string,
	f func(ctx context.Context) error) error {
	return c.retry(ctx, func() time.Duration { return limit }, what, f)
}

func (c *Client) retry(ctx context.Context, limit func() time.Duration, what string,
	f func(ctx context.Context) error) error {
	wait, told := c.Backoff(), false
	for attempt := 1; ; attempt++ {
		err := c.Attempt(ctx, limit(), f)
		if err == nil {
			return nil
		}
		if !IsTransient(err) && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		pause := laggingPause
		if !errors.Is(err, ErrReplicaLagging) || attempt > laggingRetries {
			pause = wait.NextBackOff()
			if !told {
				c.log.Warn("JetStream does not answer, trying again", event.JetStreamUnavailable, "action", what, "error", err)
			}
			told = true
		}
		if err := c.Pause(ctx, pause, err); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// A replica usually receives a missing message within milliseconds. The first laggingRetries retries are therefore fast
// and are not logged.
const (
	laggingRetries = 4
	laggingPause   = 5 * time.Millisecond
)

// Attempt calls f once, bounded by limit and by the current connection: a response does not arrive over the
// next connection.
func (c *Client) Attempt(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	up := c.status.connectionContext()
	defer context.AfterFunc(up, cancel)()
	err := f(try)
	if c.nc.IsClosed() || ctx.Err() != nil {
		return err
	}
	// The client library reports a connection as closed that it is about to reopen.
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, context.Canceled) && up.Err() != nil {
		return fmt.Errorf("%w while waiting for an answer", nats.ErrDisconnected)
	}
	return err
}

// Pause waits before the next attempt. If ctx ends, it returns the cause together with the last attempt's error.
func (c *Client) Pause(ctx context.Context, d time.Duration, last error) error {
	select {
	case <-ctx.Done():
		if st := c.Status(); !st.Connected && st.Err != nil {
			return fmt.Errorf("%w (last attempt: %w; connection: %v)", context.Cause(ctx), last, st.Err)
		}
		return fmt.Errorf("%w (last attempt: %w)", context.Cause(ctx), last)
	case <-time.After(d):
		return nil
	}
}

// clusterReadTimeout bounds a read from a server of a cluster. A server that is frozen or cut off from the stream's
// leader loses the request, and another server responds immediately.
const clusterReadTimeout = time.Second

// ReadTimeout returns the time limit for the response to a read, or for the next of several messages of a response.
func (c *Client) ReadTimeout() time.Duration {
	if c.Clustered() {
		return clusterReadTimeout
	}
	return AttemptTimeout
}
