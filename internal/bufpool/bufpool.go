// Package bufpool keeps buffers for reuse, in size classes. Allocating each buffer would cost page faults, clearing
// and garbage collection. A buffer that is unused for two collections is freed.
package bufpool

import (
	"math/bits"
	"sync"
)

// classesPerDoubling is the number of size classes per doubling: a buffer is at most an eighth larger than requested.
const classesPerDoubling = 8

// Pool keeps buffers of T. It is safe for concurrent use.
//
// With the race detector a returned buffer is overwritten, so that a test finds code that still reads it.
type Pool[T ~uint8 | ~uint16] struct {
	minLen, maxLen int
	classes        [64 * classesPerDoubling]sync.Pool // of *[]T with the size of the class as capacity
}

// New returns a pool that keeps buffers of least to most elements. Other buffers are allocated and garbage collected.
func New[T ~uint8 | ~uint16](least, most int) *Pool[T] {
	return &Pool[T]{minLen: max(least, classesPerDoubling+1), maxLen: most}
}

// sizeClass returns the size of the class for n elements, and its index.
func sizeClass(n int) (size, index int) {
	shift := bits.Len(uint(n-1)) - bits.Len(classesPerDoubling) // sizes are multiples of 1 << shift
	multiple := (n-1)>>shift + 1
	return multiple << shift, shift*classesPerDoubling + multiple - classesPerDoubling
}

// Get returns a buffer of n elements with arbitrary content. Pass from to Put when the buffer is no longer read; it
// is nil for a buffer that the pool does not keep.
func (p *Pool[T]) Get(n int) (b []T, from *[]T) {
	if n < p.minLen || n > p.maxLen {
		return make([]T, n), nil
	}
	size, i := sizeClass(n)
	from, ok := p.classes[i].Get().(*[]T)
	if !ok {
		fresh := make([]T, size)
		from = &fresh
	}
	return (*from)[:n], from
}

// Put returns a buffer to the pool. It may be a slice of the whole buffer that Get returned.
func (p *Pool[T]) Put(from *[]T) {
	*from = (*from)[:cap(*from)]
	if OverwritesReturned {
		overwrite(*from)
	}
	_, i := sizeClass(cap(*from))
	p.classes[i].Put(from)
}

// overwrite fills a buffer by copies, because the race detector checks a copy in one call, and a loop per element.
func overwrite[T ~uint8 | ~uint16](b []T) {
	b[0] = 0xad
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
