//go:build unix

package tokentest

import (
	"os"
	"syscall"
	"testing"
)

// CopyToGuardPage returns a copy of text that ends at an unreadable page. Reading even one byte after the text ends the
// program.
func CopyToGuardPage(t testing.TB, text []byte) []byte {
	t.Helper()
	page := os.Getpagesize()
	size := (len(text) + page - 1) / page * page
	memory, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(memory); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(memory[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	copy(memory[size-len(text):], text)
	return memory[size-len(text) : size : size]
}
