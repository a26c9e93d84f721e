package session

import (
	"google.golang.org/grpc/mem"
)

// Charge is the memory that one record batch holds of the budget, until gRPC has written or released the batch. gRPC
// reports the release of each buffer to the buffer's pool, which is the charge.
type Charge struct {
	hold *hold

	// Guarded by the budget's mu:
	bytes   int64  // bytes that it still holds
	spare   bool   // from the reserve
	buffers int    // number of buffers that gRPC has
	release func() // called when gRPC has released all of them; may be nil
}

var _ mem.BufferPool = (*Charge)(nil)

// Settle releases the bytes beyond the batch's actual size.
func (c *Charge) Settle(bytes int64) {
	b := c.hold.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes < c.bytes {
		c.give(c.bytes - bytes)
	}
}

// Drop releases the bytes of a batch that gRPC never received.
func (c *Charge) Drop() {
	b := c.hold.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.buffers == 0 {
		c.give(c.bytes)
	}
}

// Hand records that gRPC now has the batch, in that many buffers. release is called when gRPC has released all of
// them. It is not called if the connection is lost, since gRPC releases nothing then.
func (c *Charge) Hand(buffers int, release func()) {
	h := c.hold
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	c.buffers, c.release = buffers, release
	if h.gone {
		return
	}
	if h.out == 0 {
		h.budget.move(h)
	}
	h.out += c.bytes
}

// Put implements mem.BufferPool: gRPC has written a buffer, or its stream has ended.
func (c *Charge) Put(buffer *[]byte) {
	if c.written(buffer) && c.release != nil {
		c.release()
	}
}

// written releases the bytes of a buffer, and reports whether it was the last one of the batch.
func (c *Charge) written(buffer *[]byte) (last bool) {
	h := c.hold
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes := min(int64(len(*buffer)), c.bytes)
	c.buffers--
	if c.buffers == 0 {
		bytes = c.bytes
	}
	if !h.gone {
		h.out -= bytes
		b.move(h)
		if c.buffers == 0 {
			h.taken++
		}
		if c.buffers == 0 && h.taken == provenAfter {
			b.prove(h)
		}
	}
	c.give(bytes)
	return c.buffers == 0
}

// Get implements mem.BufferPool. gRPC allocates no buffers from a charge.
func (c *Charge) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// give releases bytes. The caller holds the budget's mu.
func (c *Charge) give(bytes int64) {
	b := c.hold.budget
	c.bytes -= bytes
	b.charge(c.hold, -bytes, c.spare)
	b.forget(c.hold)
	b.grant()
}
