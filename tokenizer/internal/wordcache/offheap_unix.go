//go:build unix

package wordcache

import (
	"runtime"
	"syscall"
	"unsafe"
)

// offHeap makes a zero T, which has no pointers, in memory of its own, outside the collected heap, that belongs to an
// owner and goes with it. Who reads T keeps the owner alive meanwhile. So the collector does not take large tables for
// a reason to let garbage grow, and the system gives only pages that are written. If it has no memory to give, T is on
// the heap, where running out of memory is an end that the runtime explains.
func offHeap[T, Owner any](owner *Owner) *T {
	size := int(unsafe.Sizeof(*new(T)))
	memory, err := syscall.Mmap(-1, 0, size+hugePage, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return new(T)
	}
	runtime.AddCleanup(owner, func(memory []byte) { _ = syscall.Munmap(memory) }, memory)
	from := -int(uintptr(unsafe.Pointer(&memory[0]))) & (hugePage - 1)
	onHugePages(memory[from : from+size])
	return (*T)(unsafe.Pointer(&memory[from]))
}

const hugePage = 2 << 20
