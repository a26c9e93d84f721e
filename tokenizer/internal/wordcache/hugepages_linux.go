package wordcache

import "syscall"

// onHugePages requests pages of 2 MiB for memory with random access, which would otherwise need an address
// translation per read. It is a hint: without it, everything works a little more slowly.
func onHugePages(memory []byte) { _ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE) }
