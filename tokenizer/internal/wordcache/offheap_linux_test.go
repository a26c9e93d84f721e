package wordcache

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// virtual returns the size of the address space in bytes.
func virtual(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(statm), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// Tables are not part of the collected heap, and their memory is returned to the system when their owner is
// collected.
func TestOffHeap_FreedWithOwner(t *testing.T) {
	const size, tables = 256 << 20, 16
	type owner struct{ table *[size]byte }
	heap := func() int {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, onHeap := virtual(t), heap()
	owners := make([]*owner, tables)
	for i := range owners {
		owners[i] = new(owner)
		owners[i].table = offHeap[[size]byte](owners[i])
		owners[i].table[size-1] = 1
	}
	if grown := virtual(t) - before; grown < tables*size {
		t.Errorf("%d tables of %d bytes are %d bytes", tables, size, grown)
	}
	if grown := heap() - onHeap; grown > size {
		t.Errorf("%d bytes are on the heap", grown)
	}
	runtime.KeepAlive(owners) // the last use
	for range 1000 {          // cleanups run concurrently
		runtime.GC()
		if virtual(t)-before < size {
			return
		}
	}
	t.Errorf("%d bytes are left", virtual(t)-before)
}
