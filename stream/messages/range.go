package messages

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// GetRange returns the messages of sequences first to last that a replica has, in order. It uses one request, to
// which the stream responds with many messages: none after maxBytes, but at least one. next is the sequence after
// those that were covered. The absence of a message proves nothing: another replica may have it, or its own headers
// may hide its position. It makes one attempt.
func GetRange(ctx context.Context, c *conn.Client, name string, first, last uint64,
	maxBytes int) (found []*jetstream.RawStreamMsg, next uint64, err error) {
	n := last - first + 1
	question := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d}`, first, n, maxBytes)
	err = c.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) error {
		found, next, err = getRange(ctx, c, name, question, n, last)
		return err
	})
	return found, next, err
}

// maxLastOfEach is the largest number of subjects in a server's response.
const maxLastOfEach = 1024

// GetLastOfEach returns the last message of each subject that matches a pattern, as a replica has them. More than 1,024
// subjects are an error. It makes one attempt.
func GetLastOfEach(ctx context.Context, c *conn.Client, name,
	pattern string) (found []*jetstream.RawStreamMsg, err error) {
	err = c.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) error {
		found, _, err = getRange(ctx, c, name, fmt.Appendf(nil, `{"multi_last":[%q]}`, pattern), maxLastOfEach,
			math.MaxUint64)
		return err
	})
	return found, err
}

// getRange requests at most n messages up to sequence last.
func getRange(ctx context.Context, c *conn.Client, name string, question []byte, n,
	last uint64) (found []*jetstream.RawStreamMsg, next uint64, err error) {
	err = requestMessages(ctx, c, name, question, n, func(m *nats.Msg) (done bool, err error) {
		var raw *jetstream.RawStreamMsg
		if raw, next, err = parseRangeMessage(m, last); err != nil || next > 0 {
			return true, err
		}
		if raw != nil && raw.Sequence <= last { // over a gap, the response has messages after the range
			found = append(found, raw)
		}
		return false, nil
	})
	if err != nil {
		return nil, 0, err
	}
	return found, next, nil
}

// parseRangeMessage parses one message of the response to a request for a range that ends at last. It is a message of
// the stream, or (next is not 0) the end of the response. Both are empty for a message whose headers cannot be parsed
// or could be taken for those of a response.
func parseRangeMessage(m *nats.Msg, last uint64) (raw *jetstream.RawStreamMsg, next uint64, err error) {
	if at, ok := m.Header[jetstream.SequenceHeader]; ok {
		if hasCopiedHeaders(m.Header) {
			return nil, 0, nil
		}
		raw = &jetstream.RawStreamMsg{Subject: m.Header.Get(jetstream.SubjectHeader), Header: m.Header, Data: m.Data}
		if raw.Sequence, err = strconv.ParseUint(at[0], 10, 64); err != nil {
			return nil, 0, conn.AsTransient(fmt.Errorf("read the sequence of a message: %w", err))
		}
		if raw.Time, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
			return nil, 0, conn.AsTransient(fmt.Errorf("read the time of a message: %w", err))
		}
		return raw, 0, nil
	}
	switch m.Header.Get("Status") {
	case "":
		return nil, 0, nil
	case "204": // after the last message
		at, err := strconv.ParseUint(m.Header.Get(jetstream.LastSequenceHeader), 10, 64)
		if err != nil {
			return nil, 0, conn.AsTransient(fmt.Errorf("read the end of a range: %w", err))
		}
		return nil, at + 1, nil
	case "404": // no message at or after the first sequence
		return nil, last + 1, nil
	case "503":
		return nil, 0, nats.ErrNoResponders
	default:
		return nil, 0, conn.AsTransient(fmt.Errorf("get a range: the server answers %q", m.Header.Get("Description")))
	}
}
