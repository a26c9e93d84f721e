package lookup

import (
	"syscall"
	"unsafe"
)

// onHugePages asks the system to put memory that is read here and there, and would need a page's address each time, on
// pages of 2 MiB. It is a hint: where it cannot be had, everything works, a little slower.
func onHugePages[T any](table []T) {
	if len(table) == 0 {
		return
	}
	var one T
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&table[0])), len(table)*int(unsafe.Sizeof(one)))
	_ = syscall.Madvise(bytes, syscall.MADV_HUGEPAGE)
}
