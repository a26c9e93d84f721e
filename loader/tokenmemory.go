package loader

import (
	"math/bits"
	"sync"
)

// Memory of narrow ids is used again once its document has left the cache and nobody has what the cache lent of it (Batch.Done): it was up to two fifths
// of all memory that a daemon took. Where nobody says so, it is left to the collector. With the race detector ids that are given back are overwritten, so that
// whoever reads them still is found.

const (
	// leastMemory and mostMemory bound which documents' memory is used again, in ids.
	leastMemory = 1 << 8
	mostMemory  = 1 << 20
	// memorySteps is how many sizes there are from one power of two to the next: a document's memory is at most an eighth larger than it needs.
	memorySteps = 8
)

// tokenMemory has what may be used again, by size.
var tokenMemory [32 * memorySteps]sync.Pool

// memorySize returns a size of which there is memory for n ids, and which of tokenMemory has it.
func memorySize(n int) (size, at int) {
	step := bits.Len(uint(n-1)) - bits.Len(memorySteps) // sizes are multiples of 1 << step
	multiple := (n-1)>>step + 1
	return multiple << step, step*memorySteps + multiple - memorySteps
}

// takeMemory returns memory for n ids, and whether it may be given back. What is in it is of no meaning.
func takeMemory(n int) (ids []uint16, again bool) {
	if n < leastMemory || n > mostMemory {
		return make([]uint16, n), false
	}
	size, at := memorySize(n)
	if used, ok := tokenMemory[at].Get().(*[]uint16); ok {
		return (*used)[:n], true
	}
	return make([]uint16, n, size), true
}

// giveMemory gives back what takeMemory returned.
func giveMemory(ids []uint16) {
	ids = ids[:cap(ids)]
	if overwrites {
		for i := range ids {
			ids[i] = 0xdead
		}
	}
	_, at := memorySize(len(ids))
	tokenMemory[at].Put(&ids)
}
