package batch

import (
	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/internal/bufpool"
)

// Buffers are the buffers of record batches. They are used again after a batch is sent.
//
//  1. A buffer is put back only after gRPC has freed every buffer of its message, as it does for the pools of its own
//     codec. gRPC does not free what a lost connection still had: that is left to the collector.
//  2. The caller of bytes writes all of it: it holds what an earlier batch had there.
type Buffers struct {
	*bufpool.Pool[byte]
	Returned func([]byte) // is called with a buffer that is put back; nil but in tests
}

// NewBuffers returns buffers of 4 KiB to 1 GiB.
func NewBuffers() *Buffers { return &Buffers{Pool: bufpool.New[byte](4<<10, 1<<30)} }

// loan is the memory of one message.
type loan struct {
	from  *Buffers
	taken []*[]byte
}

// bytes takes memory with any contents.
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

// end puts the memory back. A message without a loan has none.
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
