package batch

import (
	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/internal/bufpool"
)

// BufferPool are the buffers of record batches. A buffer is reused after its batch is sent.
//
//  1. A buffer is returned only after gRPC has freed every buffer of its message, as for the pools of its own codec.
//     gRPC does not free the buffers of a lost connection; the garbage collector frees those.
//  2. The caller of bytes must overwrite all of it, because it holds data of an earlier batch.
type BufferPool struct {
	*bufpool.Pool[byte]
	OnReturn func([]byte) // called with a buffer that is returned; nil except in tests
}

// NewBufferPool returns buffers of 4 KiB to 1 GiB.
func NewBufferPool() *BufferPool { return &BufferPool{Pool: bufpool.New[byte](4<<10, 1<<30)} }

// messageBuffers is the memory of one message.
type messageBuffers struct {
	pool    *BufferPool
	buffers []*[]byte
}

// bytes returns memory with arbitrary content.
func (l *messageBuffers) bytes(n int) []byte {
	b, from := l.pool.Get(n)
	if from != nil {
		l.buffers = append(l.buffers, from)
	}
	return b[:n:n]
}

func (l *messageBuffers) uint16s(n int) []uint16 {
	return arrow.Uint16Traits.CastFromBytes(l.bytes(n * arrow.Uint16SizeBytes))
}

func (l *messageBuffers) int32s(n int) []int32 {
	return arrow.Int32Traits.CastFromBytes(l.bytes(n * arrow.Int32SizeBytes))
}

// release returns the memory to the pool. A nil loan has no memory.
func (l *messageBuffers) release() {
	if l == nil {
		return
	}
	for _, b := range l.buffers {
		if l.pool.OnReturn != nil {
			l.pool.OnReturn(*b)
		}
		l.pool.Put(b)
	}
	l.buffers = nil
}
