package batch

import (
	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/internal/bufpool"
)

// Buffers are the buffers of record batches. A buffer is reused after its batch is sent.
//
//  1. A buffer is returned only after gRPC has freed every buffer of its message, as for the pools of its own codec.
//     gRPC does not free the buffers of a lost connection; the garbage collector frees those.
//  2. The caller of bytes must overwrite all of it, because it holds data of an earlier batch.
type Buffers struct {
	*bufpool.Pool[byte]
	Returned func([]byte) // called with a buffer that is returned; nil except in tests
}

// NewBuffers returns buffers of 4 KiB to 1 GiB.
func NewBuffers() *Buffers { return &Buffers{Pool: bufpool.New[byte](4<<10, 1<<30)} }

// loan is the memory of one message.
type loan struct {
	from  *Buffers
	taken []*[]byte
}

// bytes returns memory with arbitrary content.
func (l *loan) bytes(n int) []byte {
	b, from := l.from.Get(n)
	if from != nil {
		l.taken = append(l.taken, from)
	}
	return b[:n:n]
}

func (l *loan) uint16s(n int) []uint16 {
	return arrow.Uint16Traits.CastFromBytes(l.bytes(n * arrow.Uint16SizeBytes))
}

func (l *loan) int32s(n int) []int32 {
	return arrow.Int32Traits.CastFromBytes(l.bytes(n * arrow.Int32SizeBytes))
}

// end returns the memory to the pool. A nil loan has no memory.
func (l *loan) end() {
	if l == nil {
		return
	}
	for _, b := range l.taken {
		if l.from.Returned != nil {
			l.from.Returned(*b)
		}
		l.from.Put(b)
	}
	l.taken = nil
}
