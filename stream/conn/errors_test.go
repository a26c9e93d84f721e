package conn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

func refusal(code int, kind jetstream.ErrorCode, description string) error {
	return fmt.Errorf("store documents: %w", &jetstream.APIError{Code: code, ErrorCode: kind, Description: description})
}

// An error is final unless it is known to be transient. Lack of space is final too.
func TestErrors_FinalUnlessKnownTransient(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		passes  bool
		full    bool
		another bool // sequence than the expected one
	}{
		{name: "unknown", err: errors.New("something else")},
		{name: "unknown, marked", err: fmt.Errorf("read: %w", conn.AsTransient(errors.New("something else"))), passes: true},
		{name: "no answer", err: fmt.Errorf("read: %w", nats.ErrTimeout), passes: true},
		{name: "no answer in time", err: context.DeadlineExceeded, passes: true},
		{name: "no listener", err: nats.ErrNoResponders, passes: true},
		{name: "lost connection", err: nats.ErrDisconnected, passes: true},
		{name: "not connected now", err: nats.ErrReconnectBufExceeded, passes: true},
		{name: "an answer that is none", err: jetstream.ErrInvalidJSAck, passes: true},
		{name: "a replica that lags", err: fmt.Errorf("%w: it answers nothing", conn.ErrReplicaLagging), passes: true},
		{name: "the end of a context", err: context.Canceled},
		{name: "closed", err: nats.ErrConnectionClosed},
		{name: "no rights", err: nats.ErrAuthorization},
		{name: "no such message", err: jetstream.ErrMsgNotFound},
		{name: "no such stream", err: jetstream.ErrStreamNotFound},
		{name: "larger than the server takes", err: nats.ErrMaxPayload},
		{name: "no leader", err: refusal(503, 10008, "JetStream system temporarily unavailable"), passes: true},
		{name: "too many requests", err: refusal(429, 10167, "too many requests"), passes: true},
		{name: "a part of a batch is missing", err: refusal(400, conn.CodeBatchIncomplete, "incomplete"), passes: true},
		{name: "a stream that denies purges", err: refusal(500, 10110, "stream purge not permitted")},
		{name: "batches are off", err: refusal(400, conn.CodeAtomicDisabled, "disabled")},
		{name: "no memory or disk", err: refusal(503, 10023, "insufficient resources"), full: true},
		{name: "no storage", err: refusal(500, 10047, "insufficient storage resources available"), full: true},
		{name: "account", err: refusal(400, 10002, "resource limits exceeded for account"), full: true},
		{name: "stream", err: refusal(503, conn.CodeStoreFailed, "maximum bytes exceeded"), full: true},
		{name: "message size", err: refusal(503, conn.CodeStoreFailed, "message size exceeds maximum allowed")},
		{name: "store failed", err: refusal(503, conn.CodeStoreFailed, "write error")},
		{name: "another last of the stream", err: refusal(400, 10071, "wrong last sequence: 3"), another: true},
		{name: "another last of the subject", err: refusal(400, 10164, "wrong last sequence"), another: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if conn.IsTransient(test.err) != test.passes || errors.Is(conn.AsFull(test.err), conn.ErrFull) != test.full ||
				conn.IsWrongLastSequence(test.err) != test.another {
				t.Errorf("%v: passes %v, full %v, another sequence %v; want %v, %v, %v", test.err, conn.IsTransient(test.err),
					errors.Is(conn.AsFull(test.err), conn.ErrFull), conn.IsWrongLastSequence(test.err), test.passes, test.full,
					test.another)
			}
			if !errors.Is(conn.AsFull(test.err), test.err) {
				t.Errorf("%v is lost", test.err)
			}
		})
	}
}
