package proxy

import (
	"io"
	"sync"
)

// sendBuffer bounds the kernel's send buffer of a producer's connection, in addition to PendingBytes. The default of
// several MiB would let a connection that does not read make many gets.
const sendBuffer = 128 << 10

// PendingBytes bounds the pending data of a producer that does not read. Beyond it the connection is closed.
const PendingBytes = 512 << 10

// outbox holds pending data for a client.
type outbox struct {
	mu      sync.Mutex
	changed *sync.Cond
	pending []byte
	writing int // bytes
	closed  bool
}

func newOutbox() *outbox {
	o := &outbox{}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// add adds a whole message. It returns false if that would exceed PendingBytes.
func (o *outbox) add(b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending)+o.writing+len(b) > PendingBytes {
		return false
	}
	o.pending = append(o.pending, b...)
	o.changed.Broadcast()
	return true
}

// close ends write once the pending data is written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.changed.Broadcast()
}

// awaitPending waits until at most n bytes are pending. It returns false if the outbox is closed.
func (o *outbox) awaitPending(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending)+o.writing > n && !o.closed {
		o.changed.Wait()
	}
	return !o.closed
}

// write writes to a client until the outbox or the client is closed.
func (o *outbox) write(to io.Writer) {
	const keep = 64 << 10 // a larger buffer was for a burst
	var spare []byte
	for {
		o.mu.Lock()
		for len(o.pending) == 0 && !o.closed {
			o.changed.Wait()
		}
		out := o.pending
		o.pending, o.writing = spare[:0], len(out)
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
