package conn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loaderd/internal/event"

	"github.com/nats-io/nats.go"
)

// AttemptLimit bounds one request to the server; a request without an answer is tried again.
const AttemptLimit = 5 * time.Second

const (
	// clusterLimit bounds an attempt in a cluster at first: a server that is frozen, or that knows of no leader, takes a
	// request along, and the next one is answered as soon as there is a leader. Behind electionTime attempts get more
	// time: the machine may be busy.
	clusterLimit = time.Second
	electionTime = 10 * time.Second
)

// Limit bounds the next attempt at something that is tried since a time.
func (c *Client) Limit(began time.Time) time.Duration {
	if c.Clustered() && time.Since(began) < electionTime {
		return clusterLimit
	}
	return AttemptLimit
}

// Retry calls f until it succeeds, fails for good, or ctx ends. Each attempt is bounded, as Limit says. What is f in
// words, for the log and the error.
func (c *Client) Retry(ctx context.Context, what string, f func(ctx context.Context) error) error {
	began := time.Now()
	return c.retry(ctx, func() time.Duration { return c.Limit(began) }, what, f)
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
		if !Transient(err) && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		pause := behindPause
		if !errors.Is(err, ErrBehind) || attempt > behindFor {
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

// A replica that a message has not reached gets it within milliseconds, as a rule: so often it is asked again at once,
// and nothing is said.
const (
	behindFor   = 4
	behindPause = 5 * time.Millisecond
)

// Attempt calls f once, until limit and for as long as the connection stands: an answer does not find its way over the
// next one.
func (c *Client) Attempt(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	up := c.status.connection()
	defer context.AfterFunc(up, cancel)()
	err := f(try)
	if c.nc.IsClosed() || ctx.Err() != nil {
		return err
	}
	// The client calls a connection closed that it is about to make again.
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, context.Canceled) && up.Err() != nil {
		return fmt.Errorf("%w while waiting for an answer", nats.ErrDisconnected)
	}
	return err
}

// Pause waits before the next attempt. When ctx ends it returns the cause together with the last attempt's error.
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

// clusterReadTimeout is how long a server of a cluster may leave a read without an answer: one that is frozen, or cut
// off from the stream's leader, takes the request along, and another one answers at once.
const clusterReadTimeout = time.Second

// ReadTimeout returns how long the answer to a read, or the next of several messages that answer it, may take.
func (c *Client) ReadTimeout() time.Duration {
	if c.Clustered() {
		return clusterReadTimeout
	}
	return AttemptLimit
}
