package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// codeSubjectsOverlap is the server's answer when another stream takes a new stream's subjects.
const codeSubjectsOverlap = 10065

// attemptLimit bounds one request to the server; a request without an answer is tried again.
const attemptLimit = 5 * time.Second

// asFull turns the server's refusals for want of room into ErrStreamFull and leaves other errors as they are.
func asFull(err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	full := api.ErrorCode == codeInsufficient ||
		api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, "maximum")
	if full && !strings.Contains(api.Description, "message size") {
		return fmt.Errorf("%w: %w", ErrStreamFull, err)
	}
	return err
}

// transient says whether an error may go away by itself: the connection is down, nobody answered, or the server is busy.
func transient(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code >= 500 && api.ErrorCode != codeInsufficient && api.ErrorCode != codeStoreFailed ||
			api.ErrorCode == codeBatchIncomplete || api.ErrorCode == codeTooManyInflight
	}
	for _, e := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		nats.ErrStaleConnection, context.DeadlineExceeded, jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled,
		jetstream.ErrNoHeartbeat, jetstream.ErrInvalidJSAck, jetstream.ErrServerShutdown, jetstream.ErrConsumerDeleted,
		jetstream.ErrConsumerNotFound, jetstream.ErrConsumerLeadershipChanged, errBehind,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// retry calls f until it succeeds, fails for good, or ctx ends. Each attempt is bounded by attemptLimit.
func (s *Store) retry(ctx context.Context, what string, f func(ctx context.Context) error) error {
	return s.retryWithin(ctx, attemptLimit, what, f)
}

func (s *Store) retryWithin(ctx context.Context, limit time.Duration, what string, f func(ctx context.Context) error) error {
	wait := retryDelay(s.config.ReconnectWait)
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, limit, f)
		if err == nil {
			return nil
		}
		if !transient(err) && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if attempt == 1 {
			s.log.Warn("JetStream does not answer, trying again", "action", what, "error", err)
		}
		if err := s.pause(ctx, wait(attempt), err); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// attempt calls f once, until limit and for as long as the connection stands: an answer does not find its way over the next one.
func (s *Store) attempt(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	up := s.status.connection()
	defer context.AfterFunc(up, cancel)()
	err := f(try)
	if s.nc.IsClosed() || ctx.Err() != nil {
		return err
	}
	// The client calls a connection closed that it is about to make again.
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, context.Canceled) && up.Err() != nil {
		return fmt.Errorf("%w while waiting for an answer", nats.ErrDisconnected)
	}
	return err
}

// pause waits before the next attempt. When ctx ends it returns the cause together with the last attempt's error.
func (s *Store) pause(ctx context.Context, d time.Duration, last error) error {
	select {
	case <-ctx.Done():
		if st := s.Status(); !st.Connected && st.Error != "" {
			return fmt.Errorf("%w (last attempt: %w; connection: %s)", context.Cause(ctx), last, st.Error)
		}
		return fmt.Errorf("%w (last attempt: %w)", context.Cause(ctx), last)
	case <-time.After(d):
		return nil
	}
}
