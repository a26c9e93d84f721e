// Package columnfile reads columns of untrusted Parquet files and Arrow IPC data. Memory is bounded by the size of the
// data, decoding ends, and data that cannot be read is an error.
//
// The decoders are those of Arrow's library. They trust the counts and sizes in a file. The size of the file, its row
// groups and a recovered panic do not bound them. A file of 49 bytes makes the library request 32 GiB, and a deep
// schema overflows its stack: both end the process without a panic. A page of 120 bytes causes an endless loop. So
// this package checks before it decodes:
//
//   - the tree of a schema: the library allocates the declared number of children and recurses per level (checkFooter,
//     schemaChecker);
//   - vectors of flatbuffers, and fields that share children (checkMessage);
//   - sizes of pages, decompressed and compressed, and the number of values in a dictionary (pageReader);
//   - levels and delta encodings of a page: the decoder loops if levels or blocks are missing, and allocates the
//     declared number of values (checkDataPageV1, checkDataPageV2);
//   - declared but missing bytes (readUpTo), and the total memory that decoders request (bounded).
//
// Each check has a file in hostile_test.go. Without the check the file ends the process, uses gibibytes, does not
// end, or is read without an error. What the library bounds is not checked: lists in footers, indices of
// dictionaries, offsets of buffers.
package columnfile

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

const (
	// minMemory is the memory that any data may use, however small it is, in bytes.
	minMemory = 64 << 20
	// memoryFactor is the factor by which the memory may exceed the size of the data. Text and numbers are never
	// compressed by more.
	memoryFactor = 1024
	// maxPart is the maximum size of any part of the data: a page, or a batch.
	maxPart = 1 << 30
)

// memoryLimit returns how many bytes one part (a page, a batch) of data of this size may use.
func memoryLimit(size int64) int64 {
	return min(max(size, 0)*memoryFactor+minMemory, maxPart)
}

// damagedError returns an error of the data, as opposed to an error of reading it.
func damagedError(format string, args ...any) error {
	return fmt.Errorf("the data is damaged: "+format, args...)
}

// boundedAllocator allocates memory for a decoder. If the memory in use exceeds limit, it panics with an error, which
// Guard recovers.
type boundedAllocator struct {
	memory.Allocator
	limit int64
	used  atomic.Int64
}

func newBoundedAllocator(limit int64) *boundedAllocator {
	return &boundedAllocator{Allocator: memory.DefaultAllocator, limit: limit}
}

func (b *boundedAllocator) reserve(n int) {
	if n < 0 || b.used.Add(int64(n)) > b.limit {
		panic(damagedError("it requests %d bytes, more than the %d allowed for data of its size", n, b.limit))
	}
}

func (b *boundedAllocator) Allocate(size int) []byte {
	b.reserve(size)
	return b.Allocator.Allocate(size)
}

func (b *boundedAllocator) Reallocate(size int, old []byte) []byte {
	b.reserve(max(size-len(old), 0))
	if size < len(old) {
		b.used.Add(int64(size - len(old)))
	}
	return b.Allocator.Reallocate(size, old)
}

func (b *boundedAllocator) Free(old []byte) {
	b.used.Add(-int64(len(old)))
	b.Allocator.Free(old)
}
