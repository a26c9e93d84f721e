package session

import (
	"google.golang.org/grpc/mem"
)

// Charge is what one record batch holds of the memory of batches, until gRPC has written the batch or releases it. gRPC
// reports that for each buffer, to the pool of the buffer: the charge is that pool.
type Charge struct {
	hold *hold

	// Under the budget's mu:
	bytes   int64  // that it still holds
	spare   bool   // of the reserve
	buffers int    // that gRPC has
	release func() // is called when gRPC has released all of them; may be nil
}

var _ mem.BufferPool = (*Charge)(nil)

// Settle gives back what a batch turned out not to take.
func (c *Charge) Settle(bytes int64) {
	b := c.hold.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes < c.bytes {
		c.give(c.bytes - bytes)
	}
}

// Drop gives back the bytes of a batch that gRPC never got.
func (c *Charge) Drop() {
	b := c.hold.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.buffers == 0 {
		c.give(c.bytes)
	}
}

// Hand notes that gRPC has the batch from now on, in that many buffers. release is called when gRPC has released all of
// them; it is not called where the connection is lost, since gRPC releases nothing then.
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

// written gives back the bytes of a buffer, and reports whether it was the last one of the batch.
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

// Get implements mem.BufferPool. gRPC takes no buffers from a charge.
func (c *Charge) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// give gives bytes back. The caller holds the budget's mu.
func (c *Charge) give(bytes int64) {
	b := c.hold.budget
	c.bytes -= bytes
	b.charge(c.hold, -bytes, c.spare)
	b.forget(c.hold)
	b.grant()
}
