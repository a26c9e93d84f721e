package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// The server queues documents that producers publish faster than it stores them, and drops documents beyond its
// queue. It syncs its disk for each document or batch, and readers wait for that. The proxy therefore applies
// backpressure: it stops reading from producers while too many documents are not stored, and gives readers priority.
const (
	// partMessages and partBytes bound the documents of a connection that count as a part. An atomic batch of at
	// least partMessages documents is one part, because the server syncs its disk once for it. A smaller batch
	// counts as a document.
	partMessages = 32
	partBytes    = 1 << 20
	// maxUnstoredParts bounds the parts of all producers that are not stored yet.
	maxUnstoredParts = 8
	// delayFactor delays producers if readers have read while a part of single documents was stored: the part counts as
	// not stored for another delayFactor times the duration of storing it.
	delayFactor = 6
	maxDelay    = 3 * time.Second
	// storedTimeout bounds the wait for a part if the server does not respond.
	storedTimeout = 30 * time.Second
)

// readCounter counts the reads that readers wait for.
type readCounter struct{ open, done atomic.Int64 }

// producerDelay returns how long producers yield to readers after a part. took is how long storing it took, and done
// the number of completed reads when that began.
func (r *readCounter) producerDelay(done int64, took time.Duration) time.Duration {
	if r.open.Load() == 0 && r.done.Load() == done {
		return 0
	}
	return min(delayFactor*took, maxDelay)
}

// BeginRead records that readers wait for documents of the server, until done is called. Producers yield to them.
func (p *Proxy) BeginRead() (done func()) {
	p.reads.open.Add(1)
	return func() {
		p.reads.done.Add(1)
		p.reads.open.Add(-1)
	}
}

// partCounter counts single documents of a connection since its last part.
type partCounter struct{ messages, bytes int }

// add counts a document, or the last one of a batch with the given number of documents. It reports whether a part is
// complete, and whether that part is a batch.
func (w *partCounter) add(size, documents int) (complete, batch bool) {
	if documents >= partMessages {
		return true, true
	}
	w.messages++
	w.bytes += size
	if w.messages < partMessages && w.bytes < partBytes {
		return false, false
	}
	w.messages, w.bytes = 0, 0
	return true, false
}

// awaitCapacity counts a forwarded document, or the last one of a batch with the given number of documents. It waits
// while too many documents are not stored.
func (c *producer) awaitCapacity(m message, documents int) error {
	if c.proxy.streams.forSubject(m.subject) == nil { // no document
		return c.waitLimit(c.proxy.otherLimiter, 1)
	}
	complete, batch := c.partCounter.add(m.size, documents)
	if !complete {
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
		began, done := time.Now(), c.proxy.reads.done.Load()
		c.proxy.awaitStored(m.subject)
		if batch {
			return
		}
		c.proxy.sleep(c.proxy.reads.producerDelay(done, time.Since(began)))
	})
	return nil
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

func (p *Proxy) sleep(long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
}
