package feed_test

import (
	"errors"
	"testing"

	"loaderd/loader/document"
	"loaderd/loader/internal/feed"
)

// queue is a source whose chunks a test supplies.
type queue struct {
	chunks    chan *document.Chunk
	delivered int
}

func (q *queue) Chunks() <-chan *document.Chunk { return q.chunks }
func (q *queue) ReleaseChunk()                  { q.delivered++ }
func (q *queue) Status() document.SourceStatus  { return document.SourceStatus{} }
func (q *queue) Close() error                   { return nil }

// put appends a chunk, which is ready when the returned channel is closed.
func (q *queue) put(documents int, err error) chan struct{} {
	ready := make(chan struct{})
	q.chunks <- &document.Chunk{Ready: ready, Documents: make([]document.Document, documents), Err: err}
	return ready
}

// A chunk is received before it is ready. Once it is ready its documents are held, and it is delivered after the last
// one.
func TestFeed_Poll(t *testing.T) {
	q := &queue{chunks: make(chan *document.Chunk, 4)}
	f := &feed.Feed{Reader: q}
	poll := func(held int) {
		t.Helper()
		if err := f.Poll(); err != nil || len(f.Documents) != held {
			t.Fatalf("%d documents are held, %v, want %d", len(f.Documents), err, held)
		}
	}
	poll(0)
	if f.Queue() == nil || f.PendingReady() != nil {
		t.Error("a feed without a chunk does not wait for the queue")
	}
	first := q.put(2, nil)
	second := q.put(1, nil)
	close(second)
	poll(0)
	if f.Queue() != nil || f.PendingReady() == nil {
		t.Error("a feed with a chunk that is not ready does not wait for it")
	}
	close(first)
	poll(2)
	if f.Queue() != nil || f.PendingReady() != nil {
		t.Error("a feed that holds documents waits")
	}
	f.MarkPlanned()
	poll(1)
	if q.delivered != 0 {
		t.Error("a chunk is delivered before its last document is planned")
	}
	f.MarkPlanned()
	if q.delivered != 1 {
		t.Errorf("%d chunks are delivered behind the first one", q.delivered)
	}
	poll(1)
	f.MarkPlanned()
	lost := errors.New("lost")
	close(q.put(0, lost))
	for range 2 {
		if err := f.Poll(); !errors.Is(err, lost) || len(f.Documents) > 0 {
			t.Errorf("a source that has failed: %v, %d documents held", err, len(f.Documents))
		}
	}
}
