package docstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/event"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/stream/conn"
)

// reader is a document.Source over the document stream. One goroutine fetches, several tokenize, and the queue of
// chunks has the results in order.
//
// Invariant (continuity): documents leave the fetching goroutine with sequences from, from+1, from+2, ..., without a
// gap or a duplicate. This holds through any failure of the connection, the server or the consumer. A sequence that
// the stream no longer holds ends the reader.
type reader struct {
	log          *Log
	cancel       context.CancelFunc
	running      sync.WaitGroup
	budget       *budget
	workQueue    chan *chunk          // for the workers
	resultQueue  chan *document.Chunk // for the receiver
	spareBuffers chan []message       // empty message buffers of chunks, for reuse

	// Used by the fetching goroutine only.
	next        uint64 // sequence that is fetched next
	openChunk   *chunk
	deleted     []uint64 // sequences of deleted documents after the stream's first one; nil if unknown
	lastDeleted uint64   // the last deleted one; 0 without deleted documents, unknownDeleted if unknown
	last        uint64   // the stream's last sequence when its state was last requested
	unreadable  uint64   // first sequence after stored documents that could not be read; 0 without such documents
	minBytes    int64    // minimum bytes of the next request, if the next document did not fit the last one; else 0
	missingLast uint64   // the stream's last sequence at the tick that first found documents missing, else 0
	lag         tailLag

	warnReplaced sync.Once // about the first text that is not UTF-8

	mu          sync.Mutex
	undelivered []*chunk // chunks in order, and those that the receiver has
	status      document.SourceStatus
}

const (
	// maxQueuedChunks bounds the chunks between fetching and the receiver; the budget bounds their bytes.
	maxQueuedChunks = 4096
	// refreshInterval is the interval of requests for the stream's state while no message arrives.
	refreshInterval = time.Second
)

var errDisconnected = conn.AsTransient(errors.New("the connection is lost"))

func newReader(l *Log, from uint64, info *jetstream.StreamInfo) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{log: l, cancel: cancel, budget: newBudget(l.bufferBytes), next: from,
		workQueue:   make(chan *chunk, 2*l.workers),
		resultQueue: make(chan *document.Chunk, maxQueuedChunks), spareBuffers: make(chan []message, 4*l.workers)}
	r.status.Fetched, r.status.Delivered = from-1, from-1
	r.observeLast(info.State.LastSeq)
	r.status.ConfirmedAt = time.Now()
	r.running.Go(func() { r.fetchLoop(ctx) })
	for range l.workers {
		r.running.Go(func() { r.runWorker(ctx) })
	}
	if l.letters != nil {
		r.running.Go(func() { l.letters.Run(ctx) })
	}
	return r
}

// Chunks implements document.Source.
func (r *reader) Chunks() <-chan *document.Chunk { return r.resultQueue }

// ReleaseChunk implements document.Source. It frees the budget of the oldest undelivered chunk.
func (r *reader) ReleaseChunk() {
	r.mu.Lock()
	c := r.undelivered[0]
	r.undelivered = slices.Delete(r.undelivered, 0, 1)
	if n := len(c.Documents); n > 0 {
		r.status.Delivered = c.Documents[n-1].Sequence
	}
	r.mu.Unlock()
	r.budget.replaceCharge(c.cost, charge{})
}

// Status returns the reader's progress.
func (r *reader) Status() document.SourceStatus {
	held := r.budget.held()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Buffered = held
	s.Tokenizing = len(r.undelivered) > 0 && !r.undelivered[0].isReady()
	return s
}

// Close stops the reader and its goroutines.
func (r *reader) Close() error {
	r.cancel()
	r.running.Wait()
	return nil
}

// observeLast records the stream's last sequence.
func (r *reader) observeLast(last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.status
	s.Last = max(last, s.Last, s.Fetched)
	switch {
	case s.Last > s.Fetched:
		s.DrySince = time.Time{}
	case s.DrySince.IsZero():
		s.DrySince = time.Now()
	}
}

// setDown records since when and why the stream cannot be read.
func (r *reader) setDown(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.DownSince.IsZero() {
		r.status.DownSince = time.Now()
		r.log.log.Warn("document stream cannot be read, trying again", event.StreamReadFailed, "stream", r.log.name, "next",
			r.next, "error", err)
	}
	if errors.Is(err, nats.ErrReconnectBufExceeded) { // the client's error for a request without a connection
		err = errDisconnected
	}
	r.status.DownReason = fault.Text(err)
}

// setUp records that the stream can be read again.
func (r *reader) setUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.DownSince.IsZero() {
		return
	}
	r.log.log.Info("document stream is readable again", event.StreamReadResumed, "stream", r.log.name, "next",
		r.next, "down",
		time.Since(r.status.DownSince))
	r.status.DownSince, r.status.DownReason = time.Time{}, ""
}
