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
	// partsUnstored bounds the parts of all producers that are not stored yet.
	partsUnstored = 8
	// yieldFactor delays producers if readers have read while a part of single documents was stored: the part counts as
	// not stored for another yieldFactor times the duration of storing it.
	yieldFactor = 6
	maxYield    = 3 * time.Second
	// storedTimeout bounds the wait for a part if the server does not respond.
	storedTimeout = 30 * time.Second
)

// reads counts the reads that readers wait for.
type reads struct{ open, done atomic.Int64 }

// yield returns how long producers yield to readers after a part. took is how long storing it took, and done the
// number of completed reads when that began.
func (r *reads) yield(done int64, took time.Duration) time.Duration {
	if r.open.Load() == 0 && r.done.Load() == done {
		return 0
	}
	return min(yieldFactor*took, maxYield)
}

// Reading records that readers wait for documents of the server, until done is called. Producers yield to them.
func (p *Proxy) Reading() (done func()) {
	p.reads.open.Add(1)
	return func() {
		p.reads.done.Add(1)
		p.reads.open.Add(-1)
	}
}

// window counts single documents of a connection since its last part.
type window struct{ messages, bytes int }

// add counts a document, or the last one of a batch with the given number of documents. It reports whether a part is
// complete, and whether that part is a batch.
func (w *window) add(size, documents int) (complete, batch bool) {
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

// published counts a forwarded document, or the last one of a batch with the given number of documents. It waits
// while too many documents are not stored.
func (c *producer) published(m message, documents int) error {
	if c.p.streams.of(m.subject) == nil { // no document
		return c.wait(c.p.others, 1)
	}
	complete, batch := c.window.add(m.size, documents)
	if !complete {
		return nil
	}
	if err := c.toServ.Flush(); err != nil {
		return err
	}
	if err := c.p.parts.Acquire(c.ctx, 1); err != nil {
		return err
	}
	c.p.serving.Go(func() {
		defer c.p.parts.Release(1)
		began, done := time.Now(), c.p.reads.done.Load()
		c.p.awaitStored(m.subject)
		if batch {
			return
		}
		c.p.pause(c.p.reads.yield(done, time.Since(began)))
	})
	return nil
}

// awaitStored returns when the server has stored the documents of a subject's stream that it has received so far. The
// server responds to messages to a stream in order. The message of awaitStored expects another stream, so it is
// refused.
func (p *Proxy) awaitStored(subject string) {
	ctx, cancel := context.WithTimeout(p.ctx, storedTimeout)
	defer cancel()
	_, _ = p.o.Documents.RequestMsgWithContext(ctx,
		&nats.Msg{Subject: subject, Header: nats.Header{nats.ExpectedStreamHdr: {"-"}}})
}

func (p *Proxy) pause(long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
}
