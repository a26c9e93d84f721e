//go:build !unix

package wordcache

// offHeap makes a zero T, on the heap here, that belongs to an owner.
func offHeap[T, Owner any](*Owner) *T { return new(T) }
