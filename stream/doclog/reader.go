package doclog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader/document"
	"loaderd/stream/conn"
)

// reader is a document.Source over the document stream: one goroutine fetches, several tokenize, Next puts the results in order.
//
// Invariant (continuity): documents leave the fetching goroutine with sequences from, from+1, from+2, ..., none missing and none
// twice, whatever happens to the connection, the server or the consumer. A sequence that the stream no longer holds ends the reader.
type reader struct {
	log     *Log
	cancel  context.CancelFunc
	closed  <-chan struct{} // when cancel has been called
	running sync.WaitGroup
	budget  *budget
	jobs    chan *chunk    // for the workers
	order   chan *chunk    // for Next
	spare   chan []message // what chunks had their messages in, empty

	// Of the fetching goroutine.
	next    uint64 // sequence that is fetched next
	filling *chunk
	ask     int64  // bytes that the next request needs at least, when the next document did not fit the last one; else 0
	stale   uint64 // the stream's last sequence at the tick that found documents missing first, else 0
	pace    pace

	// Of Next.
	current *chunk // received from order
	handed  bool   // whether Next has returned it

	warnReplaced sync.Once // about the first text that is not UTF-8

	mu     sync.Mutex
	status document.SourceStatus
}

const (
	// queued bounds the chunks between fetching and Next; the budget bounds their bytes.
	queued = 4096
	// refreshEvery is how often the stream's state is asked for while no document comes.
	refreshEvery = time.Second
)

var (
	errReaderClosed = errors.New("the reader is closed")
	errDisconnected = conn.Passing(errors.New("the connection is lost"))
)

func newReader(l *Log, from uint64, info *jetstream.StreamInfo) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{log: l, cancel: cancel, closed: ctx.Done(), budget: newBudget(l.buffer), next: from,
		jobs: make(chan *chunk, 2*l.workers), order: make(chan *chunk, queued), spare: make(chan []message, 4*l.workers)}
	r.status.Fetched, r.status.Delivered = from-1, from-1
	r.sees(info.State.LastSeq)
	r.running.Go(func() { r.fetch(ctx) })
	for range l.workers {
		r.running.Go(func() { r.work(ctx) })
	}
	if l.letters != nil {
		r.running.Go(func() { l.letters.Run(ctx) })
	}
	return r
}

// Next returns the documents of the next chunk, which count against the budget until it is called again.
func (r *reader) Next(ctx context.Context) ([]document.Document, error) {
	if r.handed {
		r.deliver()
	}
	select {
	case <-r.closed: // even if a chunk is ready
		return nil, errReaderClosed
	default:
	}
	if r.current == nil {
		select {
		case r.current = <-r.order:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.closed:
			return nil, errReaderClosed
		}
	}
	if err := r.tokenized(ctx); err != nil {
		return nil, err
	}
	if r.current.err != nil { // stays current: every further call returns it
		return nil, r.current.err
	}
	r.handed = true
	return r.current.docs, nil
}

// tokenized waits until the current chunk is tokenized.
func (r *reader) tokenized(ctx context.Context) error {
	select {
	case <-r.current.done:
		return nil
	default:
	}
	r.setTokenizing(true)
	defer r.setTokenizing(false)
	select {
	case <-r.current.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.closed:
		return errReaderClosed
	}
}

// setTokenizing notes whether Next waits for a chunk to be tokenized.
func (r *reader) setTokenizing(waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Tokenizing = waits
}

// deliver lets go of the chunk that the caller is done with.
func (r *reader) deliver() {
	c := r.current
	r.current, r.handed = nil, false
	r.budget.move(c.cost, charge{})
	r.mu.Lock()
	r.status.Delivered = c.docs[len(c.docs)-1].Sequence
	r.mu.Unlock()
}

// Status says how far the reader is.
func (r *reader) Status() document.SourceStatus {
	held := r.budget.held()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Buffered = held
	return s
}

// Close stops the reader and its goroutines. Next returns an error from then on.
func (r *reader) Close() error {
	r.cancel()
	r.running.Wait()
	return nil
}

// sees notes the stream's last sequence.
func (r *reader) sees(last uint64) {
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

// down notes since when and why the stream cannot be read.
func (r *reader) down(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.DownSince.IsZero() {
		r.status.DownSince = time.Now()
		r.log.log.Warn("document stream cannot be read, trying again", "stream", r.log.name, "next", r.next, "error", err)
	}
	if errors.Is(err, nats.ErrReconnectBufExceeded) { // what the client says to a request without a connection
		err = errDisconnected
	}
	r.status.DownReason = err.Error()
}

// up notes that the stream can be read again.
func (r *reader) up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.DownSince.IsZero() {
		return
	}
	r.log.log.Info("document stream can be read again", "stream", r.log.name, "next", r.next, "down", time.Since(r.status.DownSince))
	r.status.DownSince, r.status.DownReason = time.Time{}, ""
}
