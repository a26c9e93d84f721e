package doclog

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"loaderd/loader"
	"loaderd/stream"
)

// Lookup returns the sequences of the documents with a name, in order: a producer's id, a label or a path. It reads the headers of the whole
// stream, and the payloads of JSON documents without an id or a path there.
func (l *Log) Lookup(ctx context.Context, name string) ([]uint64, error) {
	if err := l.store.Confirm(ctx, l.stream); err != nil {
		return nil, l.down("write to stream "+l.name, err)
	}
	info, err := l.info(ctx)
	if err != nil {
		return nil, err
	}
	if info.State.Msgs == 0 {
		return nil, nil
	}
	var found []uint64
	var failed error
	err = l.store.EachHeader(ctx, l.stream, "", 1, info.State.LastSeq, func(sequence uint64, h nats.Header) bool {
		id, path := headerID(h), field(h, stream.HeaderPath)
		if (id == "" || path == "") && strings.HasPrefix(field(h, stream.HeaderContentType), stream.TypeJSON) {
			var d loader.DocumentInfo
			if d, failed = l.Describe(ctx, sequence); failed != nil {
				return false
			}
			id, path = d.ID, d.Path
		}
		if name == id || name == path || name == field(h, stream.HeaderLabel) {
			found = append(found, sequence)
		}
		return true
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, fmt.Errorf("look up documents in stream %s: %w", l.name, err)
	}
	return found, nil
}
