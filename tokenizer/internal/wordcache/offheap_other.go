//go:build !unix

package wordcache

// offHeap returns a zero T that belongs to an owner, on the heap on this system.
func offHeap[T, Owner any](*Owner) *T { return new(T) }
