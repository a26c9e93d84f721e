package messages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// headerTimeout bounds the wait for one more message's headers. A longer wait means that the server has failed.
const headerTimeout = 10 * time.Second

// errEarlyEnd means that a read of headers on a lagging server ended before the last message.
var errEarlyEnd = conn.AsTransient(errors.New("a server that lags reports the end of the stream"))

// Head is a message without its payload.
type Head struct {
	Sequence uint64
	Subject  string
	Header   nats.Header
	Time     time.Time // when the stream stored it
}

// EachHeader is EachHead with sequence and headers alone.
func EachHeader(ctx context.Context, c *conn.Client, st jetstream.Stream, subject string, first, last uint64,
	f func(sequence uint64, h nats.Header) (more bool)) error {
	return EachHead(ctx, c, st, subject, first, last, func(m Head) bool { return f(m.Sequence, m.Header) })
}

// EachHead calls f with a stream's messages from sequence first to last, of one subject or of all (""), in order,
// until f returns false. Payloads are not sent.
//
// In a cluster any server may do the reading, even a lagging one, so its "nothing is left" is inconclusive. EachHead
// then requests the following message from the stream's leader, after a write that a majority has stored. It
// continues while the leader has one. A failed server does not end the reading either.
func EachHead(ctx context.Context, c *conn.Client, st jetstream.Stream, subject string, first, last uint64,
	f func(m Head) (more bool)) error {
	next, stopped := max(first, 1), false
	each := func(m Head) bool {
		stopped = !f(m)
		next = m.Sequence + 1
		return !stopped && next <= last
	}
	wait, moved := c.Backoff(), time.Now()
	for {
		from := next
		err := eachHead(ctx, c, st, subject, from, last, each)
		if stopped || next > last || !c.Clustered() {
			return err
		}
		if next > from {
			moved = time.Now()
			wait.Reset()
		}
		if err == nil {
			err = confirmNoMessages(ctx, c, st, subject, next, last)
		}
		if err == nil || !conn.IsTransient(err) || time.Since(moved) >= headerTimeout {
			return err
		}
		if err := c.Pause(ctx, wait.NextBackOff(), err); err != nil {
			return err
		}
	}
}

// confirmNoMessages returns nil if a majority of a stream's servers has no message of a subject at sequences first to
// last. It returns errEarlyEnd if it has one.
func confirmNoMessages(ctx context.Context, c *conn.Client, st jetstream.Stream, subject string, first,
	last uint64) error {
	if err := TryBarrier(ctx, c, st); err != nil {
		return err
	}
	if subject == "" {
		subject = ">"
	}
	var following uint64
	err := c.Attempt(ctx, conn.AttemptTimeout, func(ctx context.Context) error {
		m, err := getFromLeader(ctx, c, st.CachedInfo().Config.Name, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q}`,
			first, subject))
		if err == nil {
			following = m.Sequence
		}
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), err == nil && following > last:
		return nil
	case err == nil:
		return errEarlyEnd
	}
	return err
}

// eachHead is EachHead for the messages of one server, to their end. It uses a consumer. If none can be created, for
// example without permission, it uses gets of many messages, which send payloads too.
func eachHead(ctx context.Context, c *conn.Client, st jetstream.Stream, subject string, first, last uint64,
	f func(m Head) (more bool)) error {
	if !c.WasDenied(conn.OpCreateConsumer) {
		consumer, err := headersConsumer(ctx, c, st, subject, first)
		if err == nil {
			return consumeHeaders(ctx, consumer, f)
		}
		var refused *jetstream.APIError
		if !c.CheckDenied(ctx, conn.OpCreateConsumer, st.CachedInfo().Config.Name, err) &&
			(errors.As(err, &refused) || ctx.Err() != nil) {
			return err
		}
	}
	return getHeaders(ctx, c, st, subject, first, last, f)
}

func headersConsumer(ctx context.Context, c *conn.Client, st jetstream.Stream, subject string,
	first uint64) (jetstream.Consumer, error) {
	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first,
		HeadersOnly: true}
	if subject != "" {
		config.FilterSubjects = []string{subject}
	}
	ctx, cancel := context.WithTimeout(ctx, c.ReadTimeout()) // a server without the stream does not respond
	defer cancel()
	return st.OrderedConsumer(ctx, config)
}

// Bounds of one get of many messages, for their headers.
const (
	maxHeaderMessages = 1000
	maxHeaderBytes    = 8 << 20
)

func getHeaders(ctx context.Context, c *conn.Client, st jetstream.Stream, subject string, first, last uint64,
	f func(m Head) (more bool)) error {
	for next := first; next <= last; {
		end := min(last, next+maxHeaderMessages-1)
		found, behind, err := GetRange(ctx, c, st.CachedInfo().Config.Name, next, end, maxHeaderBytes)
		if err != nil {
			return err
		}
		for _, m := range found {
			if (subject == "" || m.Subject == subject) && !f(Head{m.Sequence, m.Subject, m.Header, m.Time}) {
				return nil
			}
		}
		next = min(behind, end+1) // over a gap, more sequences were covered than requested
	}
	return nil
}

func consumeHeaders(ctx context.Context, consumer jetstream.Consumer, f func(m Head) (more bool)) error {
	if info := consumer.CachedInfo(); info != nil && info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		next, cancel := context.WithTimeout(ctx, headerTimeout)
		m, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if !f(Head{meta.Sequence.Stream, m.Subject(), m.Headers(), meta.Timestamp}) || meta.NumPending == 0 {
			return nil
		}
	}
}
