package doclog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

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
	p.heard, p.next = time.Now(), r.next
	for {
		if !p.asked && time.Since(p.since) > idle {
			return errors.Join(errPullIdle, r.flush(ctx))
		}
		if err := r.request(p); err != nil {
			return err
		}
		in, err := r.await(ctx, p, tick.C, lost)
		if in != nil {
			p.heard = time.Now()
			err = r.take(ctx, p, in)
		}
		if err != nil {
			return errors.Join(err, r.flush(ctx))
		}
	}
}

// await returns the consumer's next message, nil when something else happened that the reader goes on from. The chunk that is being filled
// goes to the workers as soon as no message is there.
func (r *reader) await(ctx context.Context, p *pull, tick <-chan time.Time, lost <-chan nats.Status) (*nats.Msg, error) {
	select {
	case in := <-p.msgs:
		return in, nil
	default:
	}
	if err := r.flush(ctx); err != nil {
		return nil, err
	}
	select {
	case in := <-p.msgs:
		return in, nil
	case <-r.budget.freed:
		return nil, nil
	case <-tick:
		return nil, r.look(ctx, p)
	case <-lost:
		return nil, errDisconnected
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look notices that the server has fallen silent, and asks for the stream's state when no document has come since the last look.
func (r *reader) look(ctx context.Context, p *pull) error {
	if !p.asked {
		p.heard = time.Now()
	} else if time.Since(p.heard) > silence {
		return errSilent
	}
	before := p.next
	p.next = r.next
	if r.next != before {
		return nil
	}
	return r.refresh(ctx, p)
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

// missing finds documents that were deleted at the end of the stream. A gap in the middle shows when the message behind it comes; behind
// these no message comes. So it compares two answers: the stream says that its last sequence is last, and the consumer, asked after that, says
// that it has nothing left to send, though last was never received. Because the second answer may overtake a message on its way, the
// documents are lost only when two ticks in a row find the same.
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
