package conn

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
)

// GetLimit is how long a Get may take at most: one attempt at any replica, one at the leader.
const GetLimit = 2 * AttemptLimit

// Get reads the message at a sequence, jetstream.ErrMsgNotFound when the stream's leader has none there. It makes one attempt.
//
// A direct get may go to any replica. One that lags says "not found", and a message's own headers can pass for a status: the leader's
// word counts. So it does where the answer's place is told twice, by the producer too.
func (c *Client) Get(ctx context.Context, st jetstream.Stream, sequence uint64) (m *jetstream.RawStreamMsg, err error) {
	err = c.Attempt(ctx, AttemptLimit, func(ctx context.Context) (err error) {
		m, err = st.GetMsg(ctx, sequence)
		return err
	})
	if err == nil && !copied(m.Header) || err != nil && !c.nc.IsConnected() {
		return m, err
	}
	err = c.Attempt(ctx, AttemptLimit, func(ctx context.Context) (err error) {
		m, err = c.leaderGet(ctx, st.CachedInfo().Config.Name, sequence)
		return err
	})
	return m, err
}

// directGetHeaders are those that a direct get adds to a message.
var directGetHeaders = []string{
	jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer, jetstream.LastSequenceHeader,
}

// OfDirectGet says whether a header is one that a direct get adds to a message.
func OfDirectGet(header string) bool { return slices.Contains(directGetHeaders, header) }

// copied tells whether a message has headers of a direct get beside those of this one: it was got once before, and its producer passed
// them on.
func copied(h nats.Header) bool {
	return slices.ContainsFunc(directGetHeaders, func(name string) bool { return len(h[name]) > 1 })
}

// leaderGet asks a stream's leader for a message, where a direct get asks any replica.
func (c *Client) leaderGet(ctx context.Context, name string, sequence uint64) (*jetstream.RawStreamMsg, error) {
	resp, err := c.nc.RequestWithContext(ctx, c.API("STREAM.MSG.GET", name), fmt.Appendf(nil, `{"seq":%d}`, sequence))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return nil, Passing(fmt.Errorf("read the answer of stream %s: %w", name, err))
	}
	switch m := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return nil, answer.Error
	case m == nil:
		return nil, jetstream.ErrInvalidJetStreamResponse
	default:
		raw := &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: sequence, Data: m.Data, Time: m.Time}
		if len(m.Header) > 0 {
			raw.Header, err = nats.DecodeHeadersMsg(m.Header)
		}
		return raw, err
	}
}

// ErrBehind comes from a replica that a message has not reached yet: messages are read from any replica.
var ErrBehind = Passing(errors.New("the server has not got this record yet"))

// GetBatch returns the payloads of messages from sequence first on, at least one and at most n, and no more behind maxBytes, by one
// request that the stream answers with many messages. A replica that has none of them yet is ErrBehind. It makes one attempt.
//
// The library has no call for it, and its consumers ask for ever for a message that is larger than what they may have on the way.
func (c *Client) GetBatch(ctx context.Context, name string, first, n uint64, maxBytes int) ([][]byte, error) {
	inbox := c.nc.NewRespInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	question := fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d,"no_hdr":true}`, first, n, maxBytes)
	if err := c.nc.PublishRequest(c.API("DIRECT.GET", name), inbox, question); err != nil {
		return nil, err
	}
	var records [][]byte
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		switch m.Header.Get("Status") {
		case "":
			records = append(records, m.Data)
		case "204": // the end of the answer: a hole would show in the sequence of its last message
			if got, want := m.Header.Get(jetstream.LastSequenceHeader), first+uint64(len(records))-1; got != strconv.FormatUint(want, 10) {
				return nil, fmt.Errorf("%d records from %d on end at %s: some are gone", len(records), first, got)
			}
			if len(records) > 0 {
				return records, nil
			}
			return nil, ErrBehind
		case "503":
			return nil, nats.ErrNoResponders
		default:
			return nil, fmt.Errorf("%w: it answers %q", ErrBehind, m.Header.Get("Description"))
		}
	}
}
