package arrowout

import (
	"math/bits"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
)

// shelf keeps memory of record batches that are sent, for the next ones: new memory for each costs the server page faults, clearing and the collector.
// What nobody takes for two collections is given back by itself.
//
//  1. Memory comes back only when gRPC has said of every buffer of its message that it lets go of it, as it does to the pools that its own codec takes
//     buffers from. gRPC does not say so of what a lost connection still had: that is left to the collector.
//  2. Whoever takes memory writes all of it: it holds what an earlier batch had there.
type shelf struct {
	sizes    [shelfSizes]sync.Pool // of *[]byte with that capacity
	returned func([]byte)          // looks at memory that has come back; nil but in tests
}

// Sizes are steps of an eighth between powers of two, so that at most that much is not used.
const (
	leastShelved = 4 << 10 // bytes; less is not worth it
	mostShelved  = 1 << 30
	shelfSteps   = 8
	shelfSizes   = 19 * shelfSteps
)

// shelved is the place on a shelf of memory of so many bytes, or more, and how many it has there; false where none is kept.
func shelved(bytes int) (place, size int, ok bool) {
	if bytes < leastShelved || bytes > mostShelved {
		return 0, bytes, false
	}
	step := 1 << (bits.Len(uint(bytes-1)) - 1) / shelfSteps
	size = (bytes + step - 1) / step * step
	doubling := bits.Len(uint(size)) - bits.Len(uint(leastShelved))
	return doubling*shelfSteps + (size/(leastShelved<<doubling/shelfSteps) - shelfSteps), size, true
}

// loan is the memory of one message, from a shelf.
type loan struct {
	shelf *shelf
	taken []*[]byte
}

// bytes takes memory with any contents.
func (l *loan) bytes(n int) []byte {
	place, size, ok := shelved(n)
	if !ok {
		return make([]byte, n)
	}
	b, ok := l.shelf.sizes[place].Get().(*[]byte)
	if !ok {
		fresh := make([]byte, size)
		b = &fresh
	}
	l.taken = append(l.taken, b)
	return (*b)[:n:n]
}

func (l *loan) uint16s(n int) []uint16 {
	return arrow.Uint16Traits.CastFromBytes(l.bytes(n * arrow.Uint16SizeBytes))
}

func (l *loan) int32s(n int) []int32 {
	return arrow.Int32Traits.CastFromBytes(l.bytes(n * arrow.Int32SizeBytes))
}

// end gives the memory back: nobody reads it any more. A message without a loan has nothing to give back.
func (l *loan) end() {
	if l == nil {
		return
	}
	for _, b := range l.taken {
		if l.shelf.returned != nil {
			l.shelf.returned(*b)
		}
		place, _, _ := shelved(cap(*b))
		l.shelf.sizes[place].Put(b)
	}
	l.taken = nil
}
