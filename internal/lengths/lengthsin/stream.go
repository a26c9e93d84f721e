package lengthsin

import (
	"context"
	"fmt"
	"time"

	"loaderd/loader/document"
)

// DocumentStream is a document stream to read.
type DocumentStream interface {
	State(ctx context.Context) (document.StreamState, error)
	Read(ctx context.Context, from uint64) (document.Source, error)
}

// streamTimeout is the time for which ReadStream waits for a stream whose servers do not respond, such as during an
// election.
const streamTimeout = 30 * time.Second

// ReadStream reads the lengths of a stream's documents, from the first to the present last one, or limit documents
// (0: all). read describes the input. After each document it calls progress with the number of documents read and the
// maximum. Unusable documents do not count.
func ReadStream(ctx context.Context, documents DocumentStream, name string, limit int,
	progress func(read, of int)) (lengths []int32, read string, err error) {
	state, err := documents.State(ctx)
	if err != nil {
		return nil, "", err
	}
	first, last := state.First, state.Last
	if last < first {
		return nil, "", fmt.Errorf("read stream %s: it holds no documents yet", name)
	}
	source, err := document.OpenSource(ctx, documents, first, streamTimeout, func(error) {})
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if closed := source.Close(); err == nil {
			err = closed
		}
	}()
	want := int(last - first + 1)
	if limit > 0 {
		want = min(want, limit)
	}
	for {
		docs, err := document.Receive(ctx, source)
		if err != nil {
			return nil, "", err
		}
		for _, d := range docs {
			if d.Skip == "" {
				lengths = append(lengths, int32(d.Len()))
			}
			progress(len(lengths), want)
			if d.Sequence == last || len(lengths) == want {
				return lengths, fmt.Sprintf("stream %s, sequences %d to %d", name, first, d.Sequence), nil
			}
		}
		source.ReleaseChunk()
	}
}
