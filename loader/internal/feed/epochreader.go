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

// epochReader reads a sealed source in the order of a walk. It reads the documents of a group, or as many of them as there is likely to be room for, together: in
// the order of the stream and so in ranges, while those before are delivered. What there is no room for after all is read once more, chunk by chunk, when its
// turn comes.
type epochReader struct {
	docs   document.Documents
	walk   *mixture.Walk
	room   int64  // tokens of a group that are held
	taken  uint64 // place of the first one that was wanted
	at     uint64 // place of the next document
	cancel context.CancelFunc
	groups chan group
	now    group

	mu     sync.Mutex
	status document.SourceStatus
}

// group is a group of a walk that was read, or a part of one.
type group struct {
	order []uint64 // sequences, in the order of the walk
	held  map[uint64]document.Document
	err   error
}

// readersTokens bounds the tokens of the groups that are held, of all sources of a run. There are two groups of a source at most: one is read, one is delivered.
const readersTokens = 32 << 20

// epochChunk is how many documents Next returns at a time.
const epochChunk = 64

// recovery is the pause after documents could not be read.
const recovery = time.Second

// usualTokens is how many tokens a document is taken to have before any was read.
const usualTokens = 1000

// NewEpochReader reads from place taken of a walk on, and holds so many tokens of a group.
func NewEpochReader(docs document.Documents, walk *mixture.Walk, taken uint64, room int64) *epochReader {
	ctx, cancel := context.WithCancel(context.Background())
	w := &epochReader{docs: docs, walk: walk, room: room, taken: taken, at: taken, cancel: cancel, groups: make(chan group)}
	w.status = document.SourceStatus{Last: walk.Last, EpochLeft: walk.Len() - taken}
	go w.read(ctx)
	return w
}

// read reads one group after the other.
func (w *epochReader) read(ctx context.Context) {
	defer close(w.groups)
	mean := int64(usualTokens)
	for at := w.at; at < w.walk.Len(); {
		order, first := w.walk.Group(at)
		n := min(len(order)-first, max(int(w.room/mean), epochChunk))
		g := group{order: slices.Clone(order[first : first+n])}
		at += uint64(len(g.order))
		g.held, mean, g.err = w.fetch(ctx, g.order)
		select {
		case w.groups <- g:
		case <-ctx.Done():
			return
		}
		if g.err != nil {
			return
		}
	}
}

// fetch reads documents, holds those that there is room for, and returns how many tokens they have in the mean, 1 at least.
func (w *epochReader) fetch(ctx context.Context, order []uint64) (held map[uint64]document.Document, mean int64, err error) {
	held = map[uint64]document.Document{}
	var read, tokens int64
	var mu sync.Mutex
	sequences := slices.Sorted(slices.Values(order))
	for { // the servers may be out of reach
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

// note notes how reading goes.
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

// Next implements Source.
func (w *epochReader) Next(ctx context.Context) ([]document.Document, error) {
	w.count(0)
	for len(w.now.order) == 0 {
		select {
		case g, more := <-w.groups:
			if !more {
				<-ctx.Done() // the epoch is done: who reads on opens the next one
				return nil, ctx.Err()
			}
			if g.err != nil {
				return nil, g.err
			}
			w.now = g
			w.count(uint64(len(g.order)))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n := min(epochChunk, len(w.now.order))
	if err := w.complete(ctx, w.now.order[:n]); err != nil {
		return nil, err
	}
	out := make([]document.Document, n)
	for i, sequence := range w.now.order[:n] {
		out[i] = w.now.held[sequence]
		delete(w.now.held, sequence)
	}
	w.now.order = w.now.order[n:]
	w.at += uint64(n)
	return out, nil
}

// count notes that so many more documents are at hand, and that those which Next has returned are delivered.
func (w *epochReader) count(documents uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Fetched += documents
	w.status.Delivered, w.status.EpochLeft = w.at-w.taken, w.walk.Len()-w.at
}

// fetched notes that a document was received.
func (w *epochReader) fetched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.FetchedAt = time.Now()
}

// complete reads those of some documents that are not held.
func (w *epochReader) complete(ctx context.Context, order []uint64) error {
	for {
		var missing []uint64
		for _, sequence := range order {
			if _, held := w.now.held[sequence]; !held {
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
			w.now.held[d.Sequence] = d
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
		if err == nil && read == 0 { // it is left out: Content says why
			if _, err = w.docs.Content(ctx, missing[0]); err != nil {
				return fmt.Errorf("read document %d: %w", missing[0], err)
			}
		}
		if err := waiting.Pause(ctx, recovery); err != nil {
			return err
		}
	}
}

// Status implements Source.
func (w *epochReader) Status() document.SourceStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Close implements Source.
func (w *epochReader) Close() error {
	w.cancel()
	for range w.groups {
	}
	return nil
}
