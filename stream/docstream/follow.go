package docstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
	"loaderd/stream/feed"
)

// fetchLoop follows the stream until ctx ends or an error is permanent.
func (r *reader) fetchLoop(ctx context.Context) {
	wait := r.log.store.Backoff()
	for {
		before, began := r.next, time.Now()
		err := r.followConsumer(ctx)
		if ctx.Err() != nil {
			return
		}
		// the budget had no room for a long time, or the token store has the next documents
		if errors.Is(err, errPullIdle) || errors.Is(err, errStoredAhead) {
			wait.Reset()
			continue
		}
		if !conn.IsTransient(err) {
			r.submit(ctx, failedChunk(err))
			return
		}
		// the previous failure is over: the stream was read, or followed without an error for long enough
		if r.next != before || time.Since(began) > pullHeartbeatTimeout {
			wait.Reset()
		}
		r.setDown(err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
		}
	}
}

// followConsumer reads from r.next on until an error: first stored documents, then messages through one consumer.
func (r *reader) followConsumer(ctx context.Context) error {
	nc := r.log.store.Conn()
	lost := nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer nc.RemoveStatusListener(lost)
	if nc.IsClosed() {
		return nats.ErrConnectionClosed
	}
	idle := r.log.inactive / 4 * 3
	tick := time.NewTicker(min(refreshInterval, idle/4))
	defer tick.Stop()
	if err := r.refreshState(ctx, nil); err != nil {
		return err
	}
	if err := (storeReader{r}).readAll(ctx, lost, tick.C); err != nil {
		return err
	}
	if err := r.awaitRoom(ctx, lost, tick.C); err != nil {
		return err
	}
	p, err := r.openConsumer(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return r.log.checkReplaced("it was deleted", time.Time{})
	}
	if err != nil {
		return err
	}
	defer p.close()
	if err := r.refreshState(ctx, nil); err != nil { // the consumer may be of a recreated stream
		return err
	}
	r.setUp()
	p.lastMessage, p.nextAtCheck = time.Now(), r.next
	for {
		if !p.requestPending && time.Since(p.requestedAt) > idle {
			return errors.Join(errPullIdle, r.flush(ctx))
		}
		if err := r.requestDocuments(ctx, p); err != nil {
			return err
		}
		in, err := r.nextDelivery(ctx, p, tick.C, lost)
		if in != nil {
			p.lastMessage = time.Now()
			err = r.handleDelivery(ctx, p, in)
		}
		if err != nil {
			return errors.Join(err, r.flush(ctx))
		}
	}
}

// nextDelivery returns the consumer's next message, or nil if the caller has something else to do first. Before it
// blocks, it submits the chunk that is being filled to the workers.
func (r *reader) nextDelivery(ctx context.Context, p *pullConsumer, tick <-chan time.Time,
	lost <-chan nats.Status) (*feed.Delivery, error) {
	if len(p.received) > 0 {
		return p.popDelivery()
	}
	select {
	case p.received = <-p.feed.Messages:
		return p.popDelivery()
	default:
	}
	if err := r.flush(ctx); err != nil {
		return nil, err
	}
	select {
	case p.received = <-p.feed.Messages:
		return p.popDelivery()
	case <-r.budget.freed:
		return nil, nil
	case <-tick:
		return nil, r.checkLiveness(ctx, p)
	case <-lost:
		return nil, errDisconnected
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkLiveness detects a silent server. It requests the stream's state if no document has arrived since the previous
// call.
func (r *reader) checkLiveness(ctx context.Context, p *pullConsumer) error {
	if !p.requestPending {
		p.lastMessage = time.Now()
	} else if time.Since(p.lastMessage) > p.heartbeatTimeout {
		return conn.AsTransient(fmt.Errorf("the server has sent nothing for %v", p.heartbeatTimeout))
	}
	before := p.nextAtCheck
	p.nextAtCheck = r.next
	r.log.stored.isVerified(ctx) // verifies it if that was not possible before; documents are stored only then
	if (storeReader{r}).isAhead(ctx) {
		return errStoredAhead
	}
	if r.next != before {
		return nil
	}
	return r.refreshState(ctx, p)
}

// awaitRoom waits until the budget has room for a request. The consumer is created only then, because the server
// drops a consumer without requests.
func (r *reader) awaitRoom(ctx context.Context, lost <-chan nats.Status, tick <-chan time.Time) error {
	for {
		if _, ok := r.requestSize(); ok {
			return nil
		}
		if _, err := r.awaitChange(ctx, lost, tick); err != nil {
			return err
		}
	}
}

// awaitChange waits until the budget may have more room, or refreshes the stream's state at a tick.
func (r *reader) awaitChange(ctx context.Context, lost <-chan nats.Status, tick <-chan time.Time) (refreshed bool,
	err error) {
	r.setUp()
	select {
	case <-r.budget.freed:
		return false, nil
	case <-tick:
		return true, r.refreshState(ctx, nil)
	case <-lost:
		return false, errDisconnected
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// requestDocuments sends a request for as many bytes as the budget has room for. From the embedded server it requests
// at most as many as the pace allows. It does nothing while a request is outstanding or the room is too small.
func (r *reader) requestDocuments(ctx context.Context, p *pullConsumer) error {
	bytes, ok := r.requestSize()
	if p.requestPending || !ok {
		return nil
	}
	if bytes > 0 && r.log.store.Config().Embedded() {
		now := r.Status()
		some, wait := r.lag.nextRequest(bytes, now.Last-now.Fetched, now.Last, time.Now())
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		bytes = max(some, r.minBytes)
	}
	return p.sendRequest(bytes)
}

// minRequestBytes is how much room, in bytes, is worth a request. If documents arrive faster than they are consumed,
// requests are of about that size. Larger requests would arrive in bursts, and decoding a burst takes the processor
// from the serving of readers. If documents arrive slower, the room is large, and so are requests.
const minRequestBytes = 128 << 10

// requestSize returns how many bytes to request, 0 for one message of any size. ok is false if the room is too small.
func (r *reader) requestSize() (bytes int64, ok bool) {
	room, empty := r.budget.room()
	switch {
	case room >= max(r.minBytes, min(minRequestBytes, r.budget.maxRoom()/4)):
		return room, true
	case empty: // a document larger than the bound is fetched alone
		return 0, true
	default:
		return 0, false
	}
}

// handleDelivery processes one message of the consumer.
func (r *reader) handleDelivery(ctx context.Context, p *pullConsumer, in *feed.Delivery) error {
	bytes := p.bytesLeft
	m, pending, tooBig, err := p.receive(in)
	if err != nil {
		return err
	}
	if tooBig {
		r.minBytes = 2 * bytes
	}
	if m.sequence == 0 {
		return nil
	}
	if m.sequence != r.next {
		if m.sequence < r.next {
			return fmt.Errorf("%w: received sequence %d instead of %d", errPullLost, m.sequence, r.next)
		}
		// The consumer started at or before r.next and sent everything it found, so the stream does not hold the missing
		// sequences.
		return r.log.checkGap(ctx, r.next, m.sequence-1)
	}
	return r.addMessage(ctx, &m, m.sequence+pending)
}

// addMessage adds the next document to the chunk. last is the stream's last sequence, as far as the caller has seen.
func (r *reader) addMessage(ctx context.Context, m *message, last uint64) error {
	r.next++
	r.minBytes, r.missingLast = 0, 0
	if r.openChunk == nil {
		r.openChunk = r.newChunk()
	}
	r.openChunk.messages = append(r.openChunk.messages, *m)
	r.openChunk.size += m.size
	if m.stored == nil {
		r.lag.addFetched(m.size)
	}
	r.budget.replaceCharge(charge{}, fetchedCost(m))
	r.mu.Lock()
	r.status.Fetched, r.status.FetchedAt = m.sequence, time.Now()
	r.status.DrySince = time.Time{} // the dry period before this document is over, even if it is the stream's last
	r.status.TextBytes += int64(len(m.data))
	r.mu.Unlock()
	r.observeLast(last)
	if r.openChunk.isFull() {
		return r.flush(ctx)
	}
	return nil
}

// flush submits the chunk that is being filled.
func (r *reader) flush(ctx context.Context) error {
	c := r.openChunk
	if c == nil {
		return nil
	}
	r.openChunk = nil
	return r.submit(ctx, c)
}

// submit appends a chunk to the queue and hands it to the workers. A chunk that has an error needs no worker.
func (r *reader) submit(ctx context.Context, c *chunk) error {
	r.mu.Lock()
	r.undelivered = append(r.undelivered, c)
	r.mu.Unlock()
	select {
	case r.resultQueue <- &c.Chunk:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.isReady() {
		return nil
	}
	select {
	case r.workQueue <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// refreshState requests the stream's state and checks that the stream still holds what the reader needs next.
func (r *reader) refreshState(ctx context.Context, p *pullConsumer) error {
	requested := time.Now()
	info, err := r.log.requestState(ctx)
	if err != nil {
		return err
	}
	if err := r.log.checkCovers(ctx, info, r.next); err != nil {
		return err
	}
	r.last = info.State.LastSeq
	if err := r.updateDeleted(ctx, info.State); err != nil {
		return err
	}
	r.observeLast(info.State.LastSeq)
	r.mu.Lock()
	r.status.ConfirmedAt = requested
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	return r.checkMissing(ctx, p, info.State.LastSeq)
}

// checkMissing detects documents that were deleted at the end of the stream, where no later message shows the gap. It
// compares two responses. The stream reports last as its last sequence. The consumer, queried afterwards, reports
// that nothing is left to send, though last was never received. The second response may overtake a message, so the
// documents count as lost only if two consecutive ticks find the same.
func (r *reader) checkMissing(ctx context.Context, p *pullConsumer, last uint64) error {
	if last < r.next || len(p.received)+len(p.feed.Messages) > 0 {
		r.missingLast = 0
		return nil
	}
	consumer, err := r.log.stream.Consumer(ctx, p.name)
	if err != nil {
		return fmt.Errorf("ask for the consumer's state: %w", err)
	}
	info := consumer.CachedInfo()
	if info.NumPending > 0 || info.Delivered.Consumer != p.sentCount {
		r.missingLast = 0
		return nil
	}
	if r.missingLast == last {
		return r.log.checkGap(ctx, r.next, last)
	}
	r.missingLast = last
	return nil
}
