package conn

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// headerPatience bounds the wait for one more message's headers: longer means that the server is gone.
const headerPatience = 10 * time.Second

// EachHeader calls f with the sequence and the headers of a stream's messages from sequence first on, of one subject or of all (""), in
// order, until f returns false or no message is left. Payloads are not sent.
func EachHeader(ctx context.Context, st jetstream.Stream, subject string, first uint64, f func(sequence uint64, h nats.Header) (more bool)) error {
	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(first, 1), HeadersOnly: true}
	if subject != "" {
		config.FilterSubjects = []string{subject}
	}
	consumer, err := st.OrderedConsumer(ctx, config)
	if err != nil {
		return err
	}
	if info := consumer.CachedInfo(); info != nil && info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		next, cancel := context.WithTimeout(ctx, headerPatience)
		m, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if !f(meta.Sequence.Stream, m.Headers()) || meta.NumPending == 0 {
			return nil
		}
	}
}
