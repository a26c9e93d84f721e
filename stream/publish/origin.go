package publish

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/conn"
)

// Origin is where a document of the stream came from, as far as it is known.
type Origin struct {
	Path string
	// Input is the name of the input in whose record it lies; empty when there is none, or more than one.
	Input string
}

// Origin says where a document of the publisher's source came from. It reads one message and the records of the source.
func (p *Publisher) Origin(ctx context.Context, sequence uint64) (Origin, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.AttemptLimit)
	defer cancel()
	m, err := p.store.Get(ctx, p.stream, sequence)
	if err != nil {
		return Origin{}, fmt.Errorf("read document %d: %w", sequence, err)
	}
	o := Origin{Path: m.Header.Get(stream.HeaderPath)}
	kv, err := p.records(ctx)
	if err != nil {
		return o, err
	}
	watch, err := kv.WatchFiltered(ctx, []string{p.source + ".*"}, jetstream.IgnoreDeletes())
	if err != nil {
		return o, fmt.Errorf("read the records of source %s: %w", p.source, err)
	}
	defer func() { _ = watch.Stop() }()
	var inputs []string
	for {
		select {
		case e := <-watch.Updates():
			if e == nil { // all that is there has come
				if len(inputs) == 1 {
					o.Input = inputs[0]
				}
				return o, nil
			}
			var v recordValue
			ours := json.Unmarshal(e.Value(), &v) == nil && v.Stream == p.store.Config().Name && v.Created.Equal(p.created)
			if ours && v.FirstSequence < sequence && sequence <= v.LastSequence {
				inputs = append(inputs, v.Input)
			}
		case <-ctx.Done():
			return o, ctx.Err()
		}
	}
}
