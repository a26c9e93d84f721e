package docstream

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"loaderd/loader/document"
	"loaderd/stream"
	"loaderd/stream/messages"
)

// Lookup returns the sequences, in order, of the messages that have name as a producer's id, a label or a path. In a
// message of several documents it also matches their ids. It reads the headers of the whole stream. It also reads,
// one at a time, the payloads of JSON documents without an id or a path there, and of messages of several.
func (l *Log) Lookup(ctx context.Context, name string) ([]uint64, error) {
	if err := messages.TryBarrier(ctx, l.store.Client, l.stream); err != nil {
		return nil, l.downError("write to stream "+l.name, err)
	}
	info, err := l.streamInfo(ctx)
	if err != nil {
		return nil, err
	}
	if info.State.Msgs == 0 {
		return nil, nil
	}
	var found []uint64
	var failed error
	err = messages.EachHeader(ctx, l.store.Client, l.stream, "", 1, info.State.LastSeq,
		func(sequence uint64, h nats.Header) bool {
			f := newHeaderFields(h)
			id, path := f.id(), f.get(stream.HeaderPath)
			if (id == "" || path == "") && strings.HasPrefix(f.get(stream.HeaderContentType), stream.TypeJSON) {
				var d document.Info
				if d, failed = l.Describe(ctx, sequence); failed != nil {
					return false
				}
				id, path = d.ID, d.Path
			}
			is := name == id || name == path || name == f.get(stream.HeaderLabel)
			if !is {
				is, failed = l.hasDocumentID(ctx, sequence, f, name)
			}
			if is {
				found = append(found, sequence)
			}
			return failed == nil
		})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, fmt.Errorf("look up documents in stream %s: %w", l.name, err)
	}
	return found, nil
}

// hasDocumentID reports whether a message holds several documents, one of which has the id.
func (l *Log) hasDocumentID(ctx context.Context, sequence uint64, f headerFields, id string) (bool, error) {
	if kind, _ := mediaType(f.get(stream.HeaderContentType)); kind != stream.TypeArrow || !l.decoder.batches {
		return false, nil
	}
	m, err := l.fetchMessage(ctx, sequence)
	if err != nil {
		return false, err
	}
	d, _ := l.decoder.decode(m.header, m.data) // an undecodable message has no documents in the plan
	return slices.ContainsFunc(d.documents, func(x decodedDocument) bool { return x.id == id }), nil
}
