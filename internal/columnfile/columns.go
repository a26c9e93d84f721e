// Package columnfile reads columns of untrusted Parquet files and Arrow IPC data. Memory is bounded by the size of the
// data, decoding ends, and data that cannot be read is an error.
//
// The decoders are those of Arrow's library. They trust the counts and sizes in a file. The size of the file, its row
// groups and a recovered panic do not bound them. A file of 49 bytes makes the library request 32 GiB, and a deep
// schema overflows its stack: both end the process without a panic. A page of 120 bytes keeps it in an endless loop.
// So this package checks before it decodes:
//
//   - the tree of a schema: children are allocated as named, levels are calls (checkFooter, schemaCheck);
//   - vectors of flatbuffers, and fields that share children (checkMessage);
//   - sizes of pages, what they decompress to, the values of a dictionary (pageReader);
//   - levels and delta encodings of a page: the decoder loops where levels or blocks are missing, and allocates as many
//     values as named (checkV1, checkV2);
//   - bytes that are named but not there (readUpTo), and what decoders request in total (bounded).
//
// Each check has a file in hostile_test.go. Without the check the file ends the process, takes gibibytes, does not end,
// or is read without an error. What the library bounds is not checked: lists in footers, indices of dictionaries,
// places of buffers.
package columnfile

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

const (
	// plenty is what any data may take, however small it is.
	plenty = 64 << 20
	// growth is how many times its size the data may take; more than text and numbers are ever compressed by.
	growth = 1024
	// most is what no part of any data may exceed: a page, or a batch.
	most = 1 << 30
)

// allowance is how many bytes one part (a page, a batch) of data of this size may take.
func allowance(size int64) int64 {
	return min(max(size, 0)*growth+plenty, most)
}

// damaged is an error of the data, not of reading it.
func damaged(format string, args ...any) error {
	return fmt.Errorf("the data is damaged: "+format, args...)
}

// bounded allocates for a decoder. More than limit at a time in use ends it by a panic with an error, which the
// packages above recover.
type bounded struct {
	memory.Allocator
	limit int64
	used  atomic.Int64
}

func newBounded(limit int64) *bounded {
	return &bounded{Allocator: memory.DefaultAllocator, limit: limit}
}

func (b *bounded) take(n int) {
	if n < 0 || b.used.Add(int64(n)) > b.limit {
		panic(damaged("it asks for %d bytes, more than the %d that data of its size may take", n, b.limit))
	}
}

func (b *bounded) Allocate(size int) []byte {
	b.take(size)
	return b.Allocator.Allocate(size)
}

func (b *bounded) Reallocate(size int, old []byte) []byte {
	b.take(max(size-len(old), 0))
	if size < len(old) {
		b.used.Add(int64(size - len(old)))
	}
	return b.Allocator.Reallocate(size, old)
}

func (b *bounded) Free(old []byte) {
	b.used.Add(-int64(len(old)))
	b.Allocator.Free(old)
}
