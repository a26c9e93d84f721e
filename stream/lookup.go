package stream

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
)

// Lookup returns the sequences of the documents with a producer's id, in order. It reads the headers of the whole stream, and the payloads
// of JSON documents without an id there.
func (l *DocumentLog) Lookup(ctx context.Context, id string) ([]uint64, error) {
	info, err := l.info(ctx)
	if err != nil {
		return nil, err
	}
	if info.State.Msgs == 0 {
		return nil, nil
	}
	consumer, err := l.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true})
	if err != nil {
		return nil, fmt.Errorf("look up documents in stream %s: %w", l.name, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, fmt.Errorf("look up documents in stream %s: %w", l.name, err)
	}
	defer messages.Stop()
	var found []uint64
	for {
		next, cancel := context.WithTimeout(ctx, readBackPatience)
		m, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if err != nil {
			return nil, fmt.Errorf("look up documents in stream %s: %w", l.name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("look up documents in stream %s: %w", l.name, err)
		}
		has := headerID(m.Headers())
		if has == "" && strings.HasPrefix(field(m.Headers(), HeaderContentType), TypeJSON) {
			var d loader.DocumentInfo
			if d, err = l.Describe(ctx, meta.Sequence.Stream); err != nil {
				return nil, err
			}
			has = d.ID
		}
		if has == id {
			found = append(found, meta.Sequence.Stream)
		}
		if meta.Sequence.Stream >= info.State.LastSeq || meta.NumPending == 0 {
			return found, nil
		}
	}
}
