package wordcache

import "syscall"

// onHugePages asks the system to put memory that is read here and there, and would need a page's address each time, on
// pages of 2 MiB. It is a hint: where it cannot be had, everything works, a little slower.
func onHugePages(memory []byte) { _ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE) }
