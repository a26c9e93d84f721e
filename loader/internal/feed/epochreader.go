package feed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/mixture"
)

// epochReader reads a sealed source in the order of a walk. It reads the documents of a group together, or as many of
// them as likely fit. It reads them in stream order, and so in ranges, while it delivers the documents before.
// Documents that do not fit are read again, chunk by chunk, when they are due.
type epochReader struct {
	docs       document.Documents
	epochOrder *mixture.EpochOrder
	maxTokens  int64 // number of tokens held of a group
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	chunks     chan *document.Chunk
	delivered  chan struct{} // receives a value when a chunk is delivered; capacity 1

	mu             sync.Mutex
	chunkDocuments uint64 // number of documents in the undelivered chunk
	status         document.SourceStatus
}

// group is a group of a walk that was read, or a part of one.
type group struct {
	order     []uint64 // sequences, in the order of the walk
	documents map[uint64]document.Document
	err       error
}

// maxHeldTokens bounds the tokens of the held groups, over all sources of a run. At most two groups of a source are
// held: one is being read, one is being delivered.
const maxHeldTokens = 32 << 20

// maxChunkDocuments is the maximum number of documents in a chunk.
const maxChunkDocuments = 64

// retryPause is the pause after a failed read of documents.
const retryPause = time.Second

// assumedTokens is the assumed number of tokens of a document before any was read.
const assumedTokens = 1000

// NewEpochReader returns a reader that reads a walk from place taken on and holds at most room tokens of a group.
func NewEpochReader(docs document.Documents, walk *mixture.EpochOrder, taken uint64, room int64) *epochReader {
	ctx, cancel := context.WithCancel(context.Background())
	w := &epochReader{docs: docs, epochOrder: walk, maxTokens: room, cancel: cancel, chunks: make(chan *document.Chunk),
		delivered: make(chan struct{}, 1)}
	w.status = document.SourceStatus{Last: walk.Last, EpochLeft: walk.Len() - taken}
	groups := make(chan group)
	w.goroutines.Go(func() { w.readGroups(ctx, taken, groups) })
	w.goroutines.Go(func() { w.queueChunks(ctx, groups) })
	return w
}

// readGroups reads one group after the other, from a place on.
func (w *epochReader) readGroups(ctx context.Context, at uint64, groups chan<- group) {
	defer close(groups)
	mean := int64(assumedTokens)
	for at < w.epochOrder.Len() {
		order, first := w.epochOrder.Group(at)
		n := min(len(order)-first, max(int(w.maxTokens/mean), maxChunkDocuments))
		g := group{order: slices.Clone(order[first : first+n])}
		at += uint64(len(g.order))
		g.documents, mean, g.err = w.fetchDocuments(ctx, g.order)
		select {
		case groups <- g:
		case <-ctx.Done():
			return
		}
		if g.err != nil {
			return
		}
	}
}

// fetchDocuments reads documents and holds those that fit. It returns their mean number of tokens, at least 1.
func (w *epochReader) fetchDocuments(ctx context.Context,
	order []uint64) (held map[uint64]document.Document, mean int64, err error) {
	held = map[uint64]document.Document{}
	var read, tokens int64
	var mu sync.Mutex
	sequences := slices.Sorted(slices.Values(order))
	for { // until the servers are reachable
		room := w.maxTokens
		err := w.docs.Refetch(ctx, sequences, func(d document.Document) {
			mu.Lock()
			defer mu.Unlock()
			n := int64(d.Len())
			read, tokens = read+1, tokens+n
			if n <= room {
				held[d.Sequence] = d
				room -= n
			}
			w.recordFetchTime()
		})
		w.recordResult(err)
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if err == nil || read > 0 {
			return held, max(tokens/max(read, 1), 1), nil
		}
		if err := waiting.Sleep(ctx, retryPause); err != nil {
			return nil, 0, err
		}
	}
}

// recordResult records the result of a read in the status.
func (w *epochReader) recordResult(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.status.DownSince, w.status.DownReason = time.Time{}, ""
		return
	}
	if w.status.DownSince.IsZero() {
		w.status.DownSince = time.Now()
	}
	w.status.DownReason = fault.Text(err)
}

// queueChunks puts the documents of groups into the queue, one chunk after the other. It reads the documents of a chunk
// that are not held once the previous chunk was delivered, so that a queued chunk is always ready.
func (w *epochReader) queueChunks(ctx context.Context, groups <-chan group) {
	for g := range groups {
		if g.err != nil {
			w.queueChunk(ctx, &document.Chunk{Ready: ClosedChannel, Err: g.err})
			return
		}
		w.addFetched(uint64(len(g.order)))
		for len(g.order) > 0 {
			n := min(maxChunkDocuments, len(g.order))
			docs, err := w.takeDocuments(ctx, &g, n)
			g.order = g.order[n:]
			if !w.queueChunk(ctx, &document.Chunk{Ready: ClosedChannel, Documents: docs, Err: err}) || err != nil {
				return
			}
		}
	}
}

// queueChunk puts a chunk into the queue, and waits until it is delivered. It returns false if ctx is done before.
func (w *epochReader) queueChunk(ctx context.Context, c *document.Chunk) bool {
	w.mu.Lock()
	w.chunkDocuments = uint64(len(c.Documents))
	w.mu.Unlock()
	select {
	case w.chunks <- c:
	case <-ctx.Done():
		return false
	}
	select {
	case <-w.delivered:
		return true
	case <-ctx.Done():
		return false
	}
}

// Chunks implements document.Source.
func (w *epochReader) Chunks() <-chan *document.Chunk { return w.chunks }

// ReleaseChunk implements document.Source.
func (w *epochReader) ReleaseChunk() {
	w.mu.Lock()
	w.status.Delivered += w.chunkDocuments
	w.status.EpochLeft -= w.chunkDocuments
	w.mu.Unlock()
	w.delivered <- struct{}{}
}

// takeDocuments removes and returns the first n documents of a group.
func (w *epochReader) takeDocuments(ctx context.Context, g *group, n int) ([]document.Document, error) {
	if err := w.fetchMissing(ctx, g, g.order[:n]); err != nil {
		return nil, err
	}
	out := make([]document.Document, n)
	for i, sequence := range g.order[:n] {
		out[i] = g.documents[sequence]
		delete(g.documents, sequence)
	}
	return out, nil
}

// addFetched records that more documents are available.
func (w *epochReader) addFetched(documents uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Fetched += documents
}

// recordFetchTime records that a document was received.
func (w *epochReader) recordFetchTime() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.FetchedAt = time.Now()
}

// fetchMissing reads the documents in order that the group does not hold.
func (w *epochReader) fetchMissing(ctx context.Context, g *group, order []uint64) error {
	for {
		var missing []uint64
		for _, sequence := range order {
			if _, held := g.documents[sequence]; !held {
				missing = append(missing, sequence)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		slices.Sort(missing)
		var mu sync.Mutex
		read := 0
		err := w.docs.Refetch(ctx, missing, func(d document.Document) {
			mu.Lock()
			defer mu.Unlock()
			g.documents[d.Sequence] = d
			read++
			w.recordFetchTime()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && read == len(missing) {
			return nil
		}
		w.recordResult(err)
		if err == nil && read == 0 { // the document was omitted: Content returns the reason
			if _, err = w.docs.Content(ctx, missing[0]); err != nil {
				return fmt.Errorf("read document %d: %w", missing[0], err)
			}
		}
		if err := waiting.Sleep(ctx, retryPause); err != nil {
			return err
		}
	}
}

// Status implements document.Source.
func (w *epochReader) Status() document.SourceStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Close implements document.Source.
func (w *epochReader) Close() error {
	w.cancel()
	w.goroutines.Wait()
	return nil
}
