package proxy

import (
	"io"
	"sync"
)

// sendBuffer is what the kernel holds of a producer's answers, in addition. It would take several MiB by default, for
// which a connection that does not read could make gets.
const sendBuffer = 128 << 10

// PendingBytes bounds what waits for a producer that does not read. It is closed beyond that.
const PendingBytes = 512 << 10

// outbox holds what waits for a client.
type outbox struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte
	writing int // bytes
	closed  bool
}

func newOutbox() *outbox {
	o := &outbox{}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// add adds a whole message. It returns false when that is beyond the limit.
func (o *outbox) add(b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting)+o.writing+len(b) > PendingBytes {
		return false
	}
	o.waiting = append(o.waiting, b...)
	o.changed.Broadcast()
	return true
}

// close lets write end when the rest is written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.changed.Broadcast()
}

// drained waits until at most n bytes wait. It returns false when the outbox is closed.
func (o *outbox) drained(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting)+o.writing > n && !o.closed {
		o.changed.Wait()
	}
	return !o.closed
}

// write writes to a client until the outbox is closed, or the client is.
func (o *outbox) write(to io.Writer) {
	const keep = 64 << 10 // a larger buffer was for a burst
	var spare []byte
	for {
		o.mu.Lock()
		for len(o.waiting) == 0 && !o.closed {
			o.changed.Wait()
		}
		out := o.waiting
		o.waiting, o.writing = spare[:0], len(out)
		o.mu.Unlock()
		if len(out) == 0 {
			return
		}
		_, err := to.Write(out)
		if spare = out; cap(spare) > keep {
			spare = nil
		}
		o.mu.Lock()
		o.writing = 0
		o.closed = o.closed || err != nil
		o.changed.Broadcast()
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}
