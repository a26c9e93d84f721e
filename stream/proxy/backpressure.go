package proxy

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// The server queues documents that producers publish faster than it stores them, and drops documents beyond its
// queue. It syncs its disk for each document or batch, and readers wait for that. The proxy therefore applies
// backpressure: it stops reading from producers while too many documents are not stored, and delays all of them while
// readers are served.
const (
	// partMessages and partBytes bound the documents of a connection that count as a part. An atomic batch of at
	// least partMessages documents is one part, because the server syncs its disk once for it. A smaller batch
	// counts as a document.
	partMessages = 16
	partBytes    = 1 << 20
	// maxUnstoredParts bounds the parts of all producers that are not stored yet.
	maxUnstoredParts = 8
	// spacing is the distance between the starts of two parts, in multiples of the time for which reads were in progress
	// while the first one was stored; at most maxDelay.
	spacing  = 10
	maxDelay = 3 * time.Second
	// storedTimeout bounds the wait for a part if the server does not respond.
	storedTimeout = 30 * time.Second
)

// pacer spaces the parts of all producers while readers are served. Both need the processors and the disk, and the
// server reads no document while it syncs.
type pacer struct {
	mu       sync.Mutex
	reads    int           // in progress
	changed  time.Time     // when readTime was updated
	readTime time.Duration // how long reads were in progress, until changed
	overlap  time.Duration // how long reads were in progress while the last part was stored
	next     time.Time     // when the next part may follow
}

// addReads adds n to the number of reads. It returns how long reads were in progress so far.
func (p *pacer) addReads(n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.reads > 0 {
		p.readTime += now.Sub(p.changed)
	}
	p.changed = now
	p.reads += n
	return p.readTime
}

// beginPart records that a part is being stored, until stored is called.
func (p *pacer) beginPart() (stored func()) {
	before := p.addReads(0)
	return func() {
		overlap := p.addReads(0) - before
		p.mu.Lock()
		defer p.mu.Unlock()
		p.overlap = overlap
	}
}

// wait waits until the next part may follow.
func (p *pacer) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	at := now
	if p.next.After(now) {
		at = p.next
	}
	p.next = at.Add(min(spacing*p.overlap, maxDelay))
	p.mu.Unlock()
	if at.Equal(now) {
		return nil
	}
	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BeginRead records that readers are served, until done is called. Producers yield to them.
func (p *Proxy) BeginRead() (done func()) {
	p.pacer.addReads(1)
	return func() { p.pacer.addReads(-1) }
}

// partCounter counts single documents of a connection since its last part.
type partCounter struct{ messages, bytes int }

// add counts a document, or the last one of a batch with the given number of documents. It reports whether a part is
// complete.
func (w *partCounter) add(size, documents int) (complete bool) {
	if documents >= partMessages {
		return true
	}
	w.messages++
	w.bytes += size
	if w.messages < partMessages && w.bytes < partBytes {
		return false
	}
	w.messages, w.bytes = 0, 0
	return true
}

// awaitCapacity counts a forwarded document, or the last one of a batch with the given number of documents. It waits
// while too many documents are not stored, and while producers yield to readers.
func (c *producer) awaitCapacity(m message, documents int) error {
	if c.proxy.streams.forSubject(m.subject) == nil { // no document
		return c.waitLimit(c.proxy.otherLimiter, 1)
	}
	if !c.partCounter.add(m.size, documents) {
		return nil
	}
	if err := c.serverWriter.Flush(); err != nil {
		return err
	}
	if err := c.proxy.partLimiter.Acquire(c.ctx, 1); err != nil {
		return err
	}
	c.proxy.goroutines.Go(func() {
		defer c.proxy.partLimiter.Release(1)
		defer c.proxy.pacer.beginPart()()
		c.proxy.awaitStored(m.subject)
	})
	return c.proxy.pacer.wait(c.ctx)
}

// awaitStored returns when the server has stored the documents of a subject's stream that it has received so far. The
// server responds to messages to a stream in order. The message of awaitStored expects another stream, so it is
// refused.
func (p *Proxy) awaitStored(subject string) {
	ctx, cancel := context.WithTimeout(p.ctx, storedTimeout)
	defer cancel()
	_, _ = p.options.Documents.RequestMsgWithContext(ctx,
		&nats.Msg{Subject: subject, Header: nats.Header{nats.ExpectedStreamHdr: {"-"}}})
}
