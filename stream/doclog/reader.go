package doclog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
	"loaderd/stream/conn"
)

// reader is a loader.Source over the document stream: one goroutine fetches, several tokenize, Next puts the results in order.
//
// Invariant (continuity): documents leave the fetching goroutine with sequences from, from+1, from+2, ..., none missing and none
// twice, whatever happens to the connection, the server or the consumer. A sequence that the stream no longer holds ends the reader.
type reader struct {
	log     *Log
	cancel  context.CancelFunc
	closed  <-chan struct{} // when cancel has been called
	running sync.WaitGroup
	budget  *budget
	jobs    chan *chunk // for the workers
	order   chan *chunk // for Next

	// Of the fetching goroutine.
	next    uint64 // sequence that comes next
	filling *chunk
	ask     int64  // bytes that the next request needs at least, 0 for no more than usual
	stale   uint64 // last sequence of the stream when nothing had come although something should, 0 when all was well

	// Of Next.
	current *chunk
	at      int
	err     error

	mu     sync.Mutex
	status loader.SourceStatus
}

const (
	// queued bounds the chunks between fetching and Next; it is the budget that bounds their bytes.
	queued = 4096
	// refreshEvery is how often the stream's state is asked for while no document comes.
	refreshEvery = time.Second
	// silence is when a consumer that sends no heartbeats is given up.
	silence = 3 * pullHeartbeat
)

var (
	errReaderClosed = errors.New("the reader is closed")
	errDisconnected = conn.Passing(errors.New("the connection is lost"))
	errSilent       = conn.Passing(fmt.Errorf("nothing was heard from the server for %v", silence))
)

func newReader(l *Log, from uint64, info *jetstream.StreamInfo) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{log: l, cancel: cancel, closed: ctx.Done(), budget: newBudget(l.buffer), next: from,
		jobs: make(chan *chunk, 2*l.workers), order: make(chan *chunk, queued)}
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

// Next returns the next document.
func (r *reader) Next(ctx context.Context) (loader.Document, error) {
	for {
		if r.err != nil {
			return loader.Document{}, r.err
		}
		select {
		case <-r.closed:
			return loader.Document{}, errReaderClosed
		default:
		}
		if r.current == nil {
			select {
			case r.current = <-r.order:
				r.at = 0
			case <-ctx.Done():
				return loader.Document{}, ctx.Err()
			case <-r.closed:
				return loader.Document{}, errReaderClosed
			}
		}
		select {
		case <-r.current.done:
		case <-ctx.Done():
			return loader.Document{}, ctx.Err()
		case <-r.closed:
			return loader.Document{}, errReaderClosed
		}
		if r.current.err != nil {
			r.err = r.current.err
			continue
		}
		if r.at == len(r.current.docs) {
			r.current = nil
			continue
		}
		d := r.current.docs[r.at]
		r.current.docs[r.at] = tokenized{}
		r.at++
		r.budget.move(d.cost, charge{})
		r.mu.Lock()
		r.status.Delivered = d.doc.Sequence
		r.mu.Unlock()
		return d.doc, nil
	}
}

// Status says how far the reader is.
func (r *reader) Status() loader.SourceStatus {
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

// fetch keeps following the stream until ctx ends or nothing can help.
func (r *reader) fetch(ctx context.Context) {
	wait := r.log.store.Backoff()
	for {
		before, began := r.next, time.Now()
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errPullIdle) { // there was no room for documents for long; there will be
			wait.Reset()
			continue
		}
		if !conn.Transient(err) {
			r.submit(ctx, &chunk{err: err})
			return
		}
		if r.next != before || time.Since(began) > silence { // the stream was read, or would have been
			wait.Reset()
		}
		r.down(err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
		}
	}
}

// follow reads from r.next on through one consumer until something goes wrong.
func (r *reader) follow(ctx context.Context) error {
	nc := r.log.store.Conn()
	lost := nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer nc.RemoveStatusListener(lost)
	if nc.IsClosed() {
		return nats.ErrConnectionClosed
	}
	idle := r.log.inactive / 4 * 3
	tick := time.NewTicker(min(refreshEvery, idle/4))
	defer tick.Stop()
	if err := r.awaitRoom(ctx, lost, tick.C); err != nil {
		return err
	}
	p, err := openPull(ctx, r.log.store.Client, r.log.stream, r.next, r.log.inactive)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return r.log.replaced("it was deleted")
	}
	if err != nil {
		return err
	}
	defer p.close()
	if err := r.refresh(ctx, nil); err != nil { // the consumer is of a stream that is still the same
		return err
	}
	r.up()
	heard, moved := time.Now(), r.next
	for {
		if !p.asked && time.Since(p.since) > idle {
			return errors.Join(errPullIdle, r.flush(ctx))
		}
		if err := r.request(p); err != nil {
			return err
		}
		select {
		case in := <-p.msgs:
			heard = time.Now()
			if err := r.take(ctx, p, in); err != nil {
				return errors.Join(err, r.flush(ctx))
			}
			continue
		default:
		}
		if err := r.flush(ctx); err != nil {
			return err
		}
		select {
		case in := <-p.msgs:
			heard = time.Now()
			if err := r.take(ctx, p, in); err != nil {
				return errors.Join(err, r.flush(ctx))
			}
		case <-r.budget.freed:
		case <-tick.C:
			if !p.asked {
				heard = time.Now()
			} else if time.Since(heard) > silence {
				return errSilent
			}
			if r.next == moved {
				if err := r.refresh(ctx, p); err != nil {
					return err
				}
			}
			moved = r.next
		case <-lost:
			return errDisconnected
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitRoom returns when it is worth to ask for documents: a consumer that asks for none is dropped by the server.
func (r *reader) awaitRoom(ctx context.Context, lost <-chan nats.Status, tick <-chan time.Time) error {
	if err := r.refresh(ctx, nil); err != nil {
		return err
	}
	for {
		if _, ok := r.wants(); ok {
			return nil
		}
		r.up()
		select {
		case <-r.budget.freed:
		case <-tick:
			if err := r.refresh(ctx, nil); err != nil {
				return err
			}
		case <-lost:
			return errDisconnected
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// request asks for what the budget has room for, when nothing is asked for and it is worth it.
func (r *reader) request(p *pull) error {
	bytes, ok := r.wants()
	if p.asked || !ok {
		return nil
	}
	return p.ask(bytes)
}

// wants says how many bytes to ask for, 0 for one message of any size, and whether it is worth it.
func (r *reader) wants() (bytes int64, ok bool) {
	room, empty := r.budget.room()
	switch {
	case room >= max(r.ask, r.budget.most()/4):
		return room, true
	case empty: // a document larger than the bound passes alone
		return 0, true
	default:
		return 0, false
	}
}

// take accepts one message of the consumer.
func (r *reader) take(ctx context.Context, p *pull, in *nats.Msg) error {
	bytes := p.bytes
	m, pending, tooBig, err := p.receive(in)
	if err != nil {
		return err
	}
	if tooBig {
		r.ask = 2 * bytes
	}
	if m == nil {
		return nil
	}
	if m.sequence != r.next {
		if m.sequence < r.next {
			return fmt.Errorf("%w: sequence %d came instead of %d", errPullLost, m.sequence, r.next)
		}
		// The consumer started at or before r.next and sent everything it found, so the stream does not hold what is missing.
		return r.log.lost(r.next, m.sequence-1)
	}
	r.next++
	r.ask, r.stale = 0, 0
	if r.filling == nil {
		r.filling = &chunk{done: make(chan struct{})}
	}
	r.filling.messages = append(r.filling.messages, *m)
	r.filling.size += m.size
	r.budget.move(charge{}, fetchedCost(m))
	r.mu.Lock()
	r.status.Fetched = m.sequence
	r.status.DrySince = time.Time{} // a document that is fetched at once ends the quiet before it too
	r.status.TextBytes += int64(len(m.data))
	r.mu.Unlock()
	r.sees(m.sequence + pending)
	if r.filling.full() {
		return r.flush(ctx)
	}
	return nil
}

// flush hands over the chunk that is being filled.
func (r *reader) flush(ctx context.Context) error {
	c := r.filling
	if c == nil {
		return nil
	}
	r.filling = nil
	return r.submit(ctx, c)
}

// submit puts a chunk in line. One that carries an error needs no work.
func (r *reader) submit(ctx context.Context, c *chunk) error {
	if c.err != nil {
		c.done = make(chan struct{})
		close(c.done)
	}
	select {
	case r.order <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.err != nil {
		return nil
	}
	select {
	case r.jobs <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// refresh asks for the stream's state and checks that the reader can go on from it.
func (r *reader) refresh(ctx context.Context, p *pull) error {
	info, err := r.log.info(ctx)
	if err != nil {
		return err
	}
	if err := r.log.covers(info, r.next); err != nil {
		return err
	}
	r.sees(info.State.LastSeq)
	if p == nil {
		return nil
	}
	return r.missing(ctx, p, info.State.LastSeq)
}

// missing finds documents that were deleted at the stream's end, where no later message shows the gap: the stream says it goes up to
// last, and the consumer, asked later, has sent everything it will and nothing came. Said twice it is so.
func (r *reader) missing(ctx context.Context, p *pull, last uint64) error {
	if last < r.next || len(p.msgs) > 0 {
		r.stale = 0
		return nil
	}
	consumer, err := r.log.stream.Consumer(ctx, p.name)
	if err != nil {
		return fmt.Errorf("ask for the consumer's state: %w", err)
	}
	info := consumer.CachedInfo()
	if info.NumPending > 0 || info.Delivered.Consumer != p.seen {
		r.stale = 0
		return nil
	}
	if r.stale == last {
		return r.log.lost(r.next, last)
	}
	r.stale = last
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

// down notes that the stream cannot be read for now.
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

// up notes that it can be read again.
func (r *reader) up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.DownSince.IsZero() {
		return
	}
	r.log.log.Info("document stream can be read again", "stream", r.log.name, "next", r.next, "down", time.Since(r.status.DownSince))
	r.status.DownSince, r.status.DownReason = time.Time{}, ""
}
