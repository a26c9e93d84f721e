package arrowout

import (
	"google.golang.org/grpc/mem"
)

// charge is what one record batch holds of a budget, until gRPC has written the batch or lets go of it. gRPC tells that of each of its buffers
// alone, as to the pool from which a buffer came: which a charge is.
type charge struct {
	hold *hold

	// Under the budget's mu:
	bytes   int64 // that it still holds
	spare   bool  // of the reserve
	buffers int   // that gRPC has
	loan    *loan // memory of these, for others when gRPC has none of them any more
}

var _ mem.BufferPool = (*charge)(nil)

// settle gives back what a batch turned out not to take.
func (c *charge) settle(bytes int64) {
	b := c.hold.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes < c.bytes {
		c.give(c.bytes - bytes)
	}
}

// drop gives back the bytes of a batch that gRPC never got.
func (c *charge) drop() {
	b := c.hold.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.buffers == 0 {
		c.give(c.bytes)
	}
}

// hand says that gRPC has the batch from now on, in so many buffers, some of them of a loan.
func (c *charge) hand(buffers int, of *loan) {
	h := c.hold
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	c.buffers, c.loan = buffers, of
	if h.gone {
		return
	}
	if h.out == 0 {
		h.budget.move(h)
	}
	h.out += c.bytes
}

// Put is called when gRPC lets go of a buffer: it is written, or its stream has ended.
func (c *charge) Put(buffer *[]byte) {
	if c.written(buffer) {
		c.loan.end()
	}
}

// written gives back what a buffer takes, and says whether it was the batch's last one.
func (c *charge) written(buffer *[]byte) (last bool) {
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

// Get is of a pool that lends buffers, which this is not.
func (c *charge) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// give gives bytes back. The caller holds the budget's mu.
func (c *charge) give(bytes int64) {
	b := c.hold.budget
	c.bytes -= bytes
	b.charge(c.hold, -bytes, c.spare)
	b.forget(c.hold)
	b.grant()
}
