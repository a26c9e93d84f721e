package messages

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"loaderd/stream/conn"
)

// The server's protocol for atomic batches: every message carries the batch's id and its position, from 1. The last
// one also commits, and only its response is the acknowledgement. Nothing is stored before the commit.
const (
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
)

// MaxBatch is how many messages the server accepts in one atomic batch. It queues at most 128 MiB of one.
const MaxBatch = 1000

// Ack is the server's acknowledgement that messages are stored.
type Ack struct {
	Sequence  uint64 // of the last of them
	Duplicate bool   // a single message with a duplicate id, which is already stored at Sequence
}

// commitResponse is the server's response to a message.
type commitResponse struct {
	Error     *jetstream.APIError `json:"error"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Batch     string              `json:"batch"`
	Count     int                 `json:"count"`
}

// Commit stores messages, all or none: one by a plain publish, up to MaxBatch by an atomic batch. It makes one
// attempt and sets headers of the messages. A rejection is a *jetstream.APIError, and nothing is stored. After any
// other error they may be stored. A careful commit waits for the response to the first message of a batch. That
// response has the reason for which the server rejects batches; the response to the last message does not.
func Commit(ctx context.Context, c *conn.Client, careful bool, messages ...*nats.Msg) (Ack, error) {
	last := messages[len(messages)-1]
	if len(messages) == 1 {
		return commitLast(ctx, c, last, "", 1)
	}
	id := nuid.Next() // a new id for every attempt, because the server may still hold a part of the previous one
	for i, m := range messages {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header.Set(batchIDHeader, id)
		m.Header.Set(batchSeqHeader, strconv.Itoa(i+1))
		if m == last {
			break
		}
		send := c.Conn().PublishMsg
		if careful && i == 0 {
			send = func(m *nats.Msg) error { return openBatch(ctx, c, m) }
		}
		if err := send(m); err != nil {
			return Ack{}, err
		}
	}
	last.Header.Set(batchCommitHeader, "1")
	return commitLast(ctx, c, last, id, len(messages))
}

// openBatch sends a batch's first message. The response is empty on success.
func openBatch(ctx context.Context, c *conn.Client, m *nats.Msg) error {
	reply, err := c.Conn().RequestMsgWithContext(ctx, m)
	if err != nil || len(reply.Data) == 0 {
		return err
	}
	var a commitResponse
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return fmt.Errorf("%w: read acknowledgement %.100q: %w", jetstream.ErrInvalidJSAck, reply.Data, err)
	}
	if a.Error != nil {
		return a.Error
	}
	return fmt.Errorf("%w: %.100q for the first of several messages", jetstream.ErrInvalidJSAck, reply.Data)
}

// commitLast sends the message whose response counts for n messages of a batch, or for itself.
func commitLast(ctx context.Context, c *conn.Client, m *nats.Msg, batch string, n int) (Ack, error) {
	reply, err := c.Conn().RequestMsgWithContext(ctx, m)
	if err != nil {
		return Ack{}, err
	}
	var a commitResponse
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return Ack{}, fmt.Errorf("%w: read acknowledgement %.100q: %w", jetstream.ErrInvalidJSAck, reply.Data, err)
	}
	switch {
	case a.Error != nil:
		return Ack{}, a.Error
	case a.Sequence == 0:
		return Ack{}, fmt.Errorf("%w: acknowledgement without a sequence", jetstream.ErrInvalidJSAck)
	case batch != "" && (a.Batch != batch || a.Count != n):
		return Ack{}, fmt.Errorf("%w: acknowledgement of %d messages of batch %s, want %d of %s", jetstream.ErrInvalidJSAck,
			a.Count, a.Batch, n, batch)
	}
	return Ack{Sequence: a.Sequence, Duplicate: a.Duplicate}, nil
}
