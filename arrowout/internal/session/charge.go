package session

import (
	"google.golang.org/grpc/mem"
)

// Charge is the memory that one record batch holds of the budget, until gRPC has written or released the batch. gRPC
// reports the release of each buffer to the buffer's pool, which is the charge.
type Charge struct {
	account *account

	// Guarded by the budget's mu:
	bytes    int64  // bytes that it still holds
	reserved bool   // from the reserve
	buffers  int    // number of buffers that gRPC has
	release  func() // called when gRPC has released all of them; may be nil
}

var _ mem.BufferPool = (*Charge)(nil)

// Shrink releases the bytes beyond the batch's actual size.
func (c *Charge) Shrink(bytes int64) {
	b := c.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes < c.bytes {
		c.releaseBytes(c.bytes - bytes)
	}
}

// Discard releases the bytes of a batch that gRPC never received.
func (c *Charge) Discard() {
	b := c.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.buffers == 0 {
		c.releaseBytes(c.bytes)
	}
}

// HandOver records that gRPC now has the batch, in that many buffers. release is called when gRPC has released all of
// them. It is not called if the connection is lost, since gRPC releases nothing then.
func (c *Charge) HandOver(buffers int, release func()) {
	h := c.account
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	c.buffers, c.release = buffers, release
	if h.connectionLost {
		return
	}
	if h.inFlight == 0 {
		h.budget.recordProgress(h)
	}
	h.inFlight += c.bytes
}

// Put implements mem.BufferPool: gRPC has written a buffer, or its stream has ended.
func (c *Charge) Put(buffer *[]byte) {
	if c.releaseBuffer(buffer) && c.release != nil {
		c.release()
	}
}

// releaseBuffer releases the bytes of a buffer, and reports whether it was the last one of the batch.
func (c *Charge) releaseBuffer(buffer *[]byte) (last bool) {
	h := c.account
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes := min(int64(len(*buffer)), c.bytes)
	c.buffers--
	if c.buffers == 0 {
		bytes = c.bytes
	}
	if !h.connectionLost {
		h.inFlight -= bytes
		b.recordProgress(h)
		if c.buffers == 0 {
			h.writtenBatches++
		}
		if c.buffers == 0 && h.writtenBatches == provenBatches {
			b.markProven(h)
		}
	}
	c.releaseBytes(bytes)
	return c.buffers == 0
}

// Get implements mem.BufferPool. gRPC allocates no buffers from a charge.
func (c *Charge) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// releaseBytes releases bytes. The caller holds the budget's mu.
func (c *Charge) releaseBytes(bytes int64) {
	b := c.account.budget
	c.bytes -= bytes
	b.charge(c.account, -bytes, c.reserved)
	b.removeClosed(c.account)
	b.grantRequests()
}
