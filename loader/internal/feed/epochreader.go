package feed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/internal/waiting"
	"loaderd/loader/mixture"
)

// epochReader reads a sealed source in the order of a walk. It reads the documents of a group together, or as many of
// them as likely fit. It reads them in stream order, and so in ranges, while it delivers the documents before.
// Documents that do not fit are read again, chunk by chunk, when they are due.
type epochReader struct {
	docs    document.Documents
	walk    *mixture.Walk
	room    int64 // number of tokens held of a group
	cancel  context.CancelFunc
	running sync.WaitGroup
	chunks  chan *document.Chunk
	done    chan struct{} // receives a value when a chunk is delivered; capacity 1

	mu       sync.Mutex
	received uint64 // number of documents in the undelivered chunk
	status   document.SourceStatus
}

// group is a group of a walk that was read, or a part of one.
type group struct {
	order []uint64 // sequences, in the order of the walk
	held  map[uint64]document.Document
	err   error
}

// readersTokens bounds the tokens of the held groups, over all sources of a run. At most two groups of a source are
// held: one is being read, one is being delivered.
const readersTokens = 32 << 20

// epochChunk is the maximum number of documents in a chunk.
const epochChunk = 64

// recovery is the pause after a failed read of documents.
const recovery = time.Second

// usualTokens is the assumed number of tokens of a document before any was read.
const usualTokens = 1000

// NewEpochReader returns a reader that reads a walk from place taken on and holds at most room tokens of a group.
func NewEpochReader(docs document.Documents, walk *mixture.Walk, taken uint64, room int64) *epochReader {
	ctx, cancel := context.WithCancel(context.Background())
	w := &epochReader{docs: docs, walk: walk, room: room, cancel: cancel, chunks: make(chan *document.Chunk),
		done: make(chan struct{}, 1)}
	w.status = document.SourceStatus{Last: walk.Last, EpochLeft: walk.Len() - taken}
	groups := make(chan group)
	w.running.Go(func() { w.read(ctx, taken, groups) })
	w.running.Go(func() { w.cut(ctx, groups) })
	return w
}

// read reads one group after the other, from a place on.
func (w *epochReader) read(ctx context.Context, at uint64, groups chan<- group) {
	defer close(groups)
	mean := int64(usualTokens)
	for at < w.walk.Len() {
		order, first := w.walk.Group(at)
		n := min(len(order)-first, max(int(w.room/mean), epochChunk))
		g := group{order: slices.Clone(order[first : first+n])}
		at += uint64(len(g.order))
		g.held, mean, g.err = w.fetch(ctx, g.order)
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

// fetch reads documents and holds those that fit. It returns their mean number of tokens, at least 1.
func (w *epochReader) fetch(ctx context.Context,
	order []uint64) (held map[uint64]document.Document, mean int64, err error) {
	held = map[uint64]document.Document{}
	var read, tokens int64
	var mu sync.Mutex
	sequences := slices.Sorted(slices.Values(order))
	for { // until the servers are reachable
		room := w.room
		err := w.docs.Again(ctx, sequences, func(d document.Document) {
			mu.Lock()
			defer mu.Unlock()
			n := int64(d.Len())
			read, tokens = read+1, tokens+n
			if n <= room {
				held[d.Sequence] = d
				room -= n
			}
			w.fetched()
		})
		w.note(err)
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if err == nil || read > 0 {
			return held, max(tokens/max(read, 1), 1), nil
		}
		if err := waiting.Pause(ctx, recovery); err != nil {
			return nil, 0, err
		}
	}
}

// note records the result of a read in the status.
func (w *epochReader) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.status.DownSince, w.status.DownReason = time.Time{}, ""
		return
	}
	if w.status.DownSince.IsZero() {
		w.status.DownSince = time.Now()
	}
	w.status.DownReason = err.Error()
}

// cut puts the documents of groups into the queue, one chunk after the other. It reads the documents of a chunk that
// are not held once the previous chunk was delivered, so that a queued chunk is always ready.
func (w *epochReader) cut(ctx context.Context, groups <-chan group) {
	for g := range groups {
		if g.err != nil {
			w.put(ctx, &document.Chunk{Ready: Always, Err: g.err})
			return
		}
		w.count(uint64(len(g.order)))
		for len(g.order) > 0 {
			n := min(epochChunk, len(g.order))
			docs, err := w.documents(ctx, &g, n)
			g.order = g.order[n:]
			if !w.put(ctx, &document.Chunk{Ready: Always, Documents: docs, Err: err}) || err != nil {
				return
			}
		}
	}
}

// put puts a chunk into the queue, and waits until it is delivered. It returns false if ctx is done before.
func (w *epochReader) put(ctx context.Context, c *document.Chunk) bool {
	w.mu.Lock()
	w.received = uint64(len(c.Documents))
	w.mu.Unlock()
	select {
	case w.chunks <- c:
	case <-ctx.Done():
		return false
	}
	select {
	case <-w.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Chunks implements document.Source.
func (w *epochReader) Chunks() <-chan *document.Chunk { return w.chunks }

// Deliver implements document.Source.
func (w *epochReader) Deliver() {
	w.mu.Lock()
	w.status.Delivered += w.received
	w.status.EpochLeft -= w.received
	w.mu.Unlock()
	w.done <- struct{}{}
}

// documents removes and returns the first n documents of a group.
func (w *epochReader) documents(ctx context.Context, g *group, n int) ([]document.Document, error) {
	if err := w.complete(ctx, g, g.order[:n]); err != nil {
		return nil, err
	}
	out := make([]document.Document, n)
	for i, sequence := range g.order[:n] {
		out[i] = g.held[sequence]
		delete(g.held, sequence)
	}
	return out, nil
}

// count records that more documents are available.
func (w *epochReader) count(documents uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Fetched += documents
}

// fetched records that a document was received.
func (w *epochReader) fetched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.FetchedAt = time.Now()
}

// complete reads the documents in order that the group does not hold.
func (w *epochReader) complete(ctx context.Context, g *group, order []uint64) error {
	for {
		var missing []uint64
		for _, sequence := range order {
			if _, held := g.held[sequence]; !held {
				missing = append(missing, sequence)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		slices.Sort(missing)
		var mu sync.Mutex
		read := 0
		err := w.docs.Again(ctx, missing, func(d document.Document) {
			mu.Lock()
			defer mu.Unlock()
			g.held[d.Sequence] = d
			read++
			w.fetched()
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && read == len(missing) {
			return nil
		}
		w.note(err)
		if err == nil && read == 0 { // the document was omitted: Content returns the reason
			if _, err = w.docs.Content(ctx, missing[0]); err != nil {
				return fmt.Errorf("read document %d: %w", missing[0], err)
			}
		}
		if err := waiting.Pause(ctx, recovery); err != nil {
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
	w.running.Wait()
	return nil
}
