//go:build unix

package wordcache

import (
	"runtime"
	"syscall"
	"unsafe"
)

// offHeap returns a zero T, which must have no pointers, in memory outside the collected heap. The memory belongs to
// an owner and is released with it, so readers of T must keep the owner alive. So large tables do not make the
// collector let garbage grow, and the system allocates only pages that are written. If the system has no memory, T is
// allocated on the heap, where the runtime reports that memory is exhausted.
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
