// Package messages reads and writes the messages of streams: reads that the leader of a stream confirms, many
// messages in one response, headers without payloads, and atomic batches.
package messages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// GetTimeout is the time limit of a Get: one attempt at any replica, one at the leader.
const GetTimeout = 2 * conn.AttemptTimeout

// Get reads the message at a sequence. It returns jetstream.ErrMsgNotFound if the stream's leader has none there. It
// makes one attempt.
//
// A direct get may go to any replica. A lagging replica responds "not found", and the headers of a message can look
// like a status. Get then requests the message from the leader. It also does so if a response has its position twice,
// because the producer's headers have one too.
func Get(ctx context.Context, c *conn.Client, st jetstream.Stream,
	sequence uint64) (m *jetstream.RawStreamMsg, err error) {
	err = c.Attempt(ctx, c.ReadTimeout(), func(ctx context.Context) (err error) {
		m, err = st.GetMsg(ctx, sequence)
		return err
	})
	if err == nil && !hasCopiedHeaders(m.Header) || err != nil && !c.Conn().IsConnected() {
		return m, err
	}
	err = c.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) (err error) {
		m, err = getFromLeader(ctx, c, st.CachedInfo().Config.Name, fmt.Appendf(nil, `{"seq":%d}`, sequence))
		return err
	})
	return m, err
}

// directGetHeaders lists the headers that a direct get adds to a message.
var directGetHeaders = []string{
	jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer,
	jetstream.LastSequenceHeader,
}

// IsDirectGetHeader reports whether a header is one that a direct get adds to a message.
func IsDirectGetHeader(header string) bool { return slices.Contains(directGetHeaders, header) }

// hasCopiedHeaders reports whether a message has headers of an earlier direct get, which its producer has passed on.
func hasCopiedHeaders(h nats.Header) bool {
	return slices.ContainsFunc(directGetHeaders, func(name string) bool { return len(h[name]) > 1 })
}

// GetLast reads the last message on a subject from a stream's leader. It returns jetstream.ErrMsgNotFound if the
// leader has none. It makes one attempt.
func GetLast(ctx context.Context, c *conn.Client, name, subject string) (*jetstream.RawStreamMsg, error) {
	return getFromLeader(ctx, c, name, fmt.Appendf(nil, `{"last_by_subj":%q}`, subject))
}

// getFromLeader requests a message from a stream's leader; a direct get may go to any replica.
func getFromLeader(ctx context.Context, c *conn.Client, name string, question []byte) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, c.ReadTimeout())
	defer cancel()
	resp, err := c.Conn().RequestWithContext(ctx, c.API("STREAM.MSG.GET", name), question)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return nil, conn.AsTransient(fmt.Errorf("read the answer of stream %s: %w", name, err))
	}
	switch m := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return nil, answer.Error
	case m == nil:
		return nil, jetstream.ErrInvalidJetStreamResponse
	default:
		raw := &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Sequence, Data: m.Data, Time: m.Time}
		if len(m.Header) > 0 {
			raw.Header, err = nats.DecodeHeadersMsg(m.Header)
		}
		return raw, err
	}
}

// GetBatch returns the payloads of messages from sequence first on, at least one and at most n, and none after
// maxBytes. It uses one request, to which the stream responds with many messages. It returns conn.ErrReplicaLagging if
// a replica has none of them yet. It makes one attempt.
//
// The library has no call for it. The library's consumers forever request a message that is larger than their bound
// of bytes in flight.
func GetBatch(ctx context.Context, c *conn.Client, name string, first, n uint64, maxBytes int) ([][]byte, error) {
	question := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d,"no_hdr":true}`, first, n, maxBytes)
	records, last, err := getDirect(ctx, c, name, question, n)
	switch {
	case err != nil:
		return nil, err
	case len(records) == 0:
		return nil, conn.ErrReplicaLagging
	case last != first+uint64(len(records))-1: // a gap shows in the sequence of the last message
		return nil, fmt.Errorf("%d records from %d on end at %d: some are gone", len(records), first, last)
	}
	return records, nil
}

// NextSequence returns the sequence of the first message at or after a sequence that some replica has, 0 for none. A
// skipped sequence is in no replica, because each stores messages in order. It makes one attempt.
func NextSequence(ctx context.Context, c *conn.Client, name string, sequence uint64) (following uint64, err error) {
	err = c.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) error {
		_, following, err = getDirect(ctx, c, name, fmt.Appendf(nil, `{"seq":%d,"batch":1,"no_hdr":true}`, sequence), 1)
		if errors.Is(err, conn.ErrReplicaLagging) {
			return nil
		}
		return err
	})
	return following, err
}

// getDirect requests at most n consecutive messages from any replica. It returns their payloads and the sequence of the
// last one, or conn.ErrReplicaLagging if the replica has none of them. The request excludes headers, because those of a
// producer could be taken for those of a response.
func getDirect(ctx context.Context, c *conn.Client, name string, question []byte,
	n uint64) (payloads [][]byte, last uint64, err error) {
	err = requestMessages(ctx, c, name, question, n, func(m *nats.Msg) (done bool, err error) {
		switch m.Header.Get("Status") {
		case "":
			payloads = append(payloads, m.Data)
			return false, nil
		case "204": // the end of the response
			if last, err = strconv.ParseUint(m.Header.Get(jetstream.LastSequenceHeader), 10, 64); err != nil {
				err = fmt.Errorf("read the end of an answer of stream %s: %w", name, conn.AsTransient(err))
			}
			return true, err
		case "503":
			return true, nats.ErrNoResponders
		default:
			return true, fmt.Errorf("%w: it answers %q", conn.ErrReplicaLagging, m.Header.Get("Description"))
		}
	})
	if err != nil {
		return nil, 0, err
	}
	return payloads, last, nil
}
