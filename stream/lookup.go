package stream

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
)

// Lookup returns the sequences of the documents with a name, in order: a producer's id, a label or a path. It reads the headers of the whole
// stream, and the payloads of JSON documents without an id or a path there.
func (l *DocumentLog) Lookup(ctx context.Context, name string) ([]uint64, error) {
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
		h := m.Headers()
		id, path := headerID(h), field(h, HeaderPath)
		if (id == "" || path == "") && strings.HasPrefix(field(h, HeaderContentType), TypeJSON) {
			var d loader.DocumentInfo
			if d, err = l.Describe(ctx, meta.Sequence.Stream); err != nil {
				return nil, err
			}
			id, path = d.ID, d.Path
		}
		if name == id || name == path || name == field(h, HeaderLabel) {
			found = append(found, meta.Sequence.Stream)
		}
		if meta.Sequence.Stream >= info.State.LastSeq || meta.NumPending == 0 {
			return found, nil
		}
	}
}
