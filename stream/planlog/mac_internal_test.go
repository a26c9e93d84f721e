package planlog

import (
	"bytes"
	"testing"
)

// A code is of one key, one thing and one place: no other has it.
func TestCodes(t *testing.T) {
	k, other := keyring{bytes.Repeat([]byte{1}, 32)}, keyring{bytes.Repeat([]byte{2}, 32)}
	record := []byte("record")
	code := k.make(macRecord, "run", []byte("id"), place(7), record)
	if len(code) != macBytes || !k.verifies(code, macRecord, "run", []byte("id"), place(7), record) {
		t.Fatal("a code is not its own")
	}
	rotated := append(other, k...)
	if !rotated.verifies(code, macRecord, "run", []byte("id"), place(7), record) || bytes.Equal(rotated.make(macRecord, "run"), k.make(macRecord, "run")) {
		t.Error("of several keys the first writes and all verify")
	}
	for what, taken := range map[string]bool{
		"another key":      other.verifies(code, macRecord, "run", []byte("id"), place(7), record),
		"another place":    k.verifies(code, macRecord, "run", []byte("id"), place(8), record),
		"another id":       k.verifies(code, macRecord, "run", []byte("ie"), place(7), record),
		"another run":      k.verifies(code, macRecord, "runs", []byte("id"), place(7), record),
		"another thing":    k.verifies(code, macCheckpoint, "run", []byte("id"), place(7), record),
		"another record":   k.verifies(code, macRecord, "run", []byte("id"), place(7), []byte("recore")),
		"parts cut apart":  k.verifies(code, macRecord, "run", []byte("i"), []byte("d7"), record),
		"a part of it":     k.verifies(code[:8], macRecord, "run", []byte("id"), place(7), record),
		"no code":          k.verifies(nil, macRecord, "run", []byte("id"), place(7), record),
		"no text":          k.read("", macRecord, "run", []byte("id"), place(7), record),
		"text of no digit": k.read("zz", macRecord, "run", []byte("id"), place(7), record),
	} {
		if taken {
			t.Errorf("%s has the code", what)
		}
	}
}

func BenchmarkCode(b *testing.B) {
	k, id := keyring{bytes.Repeat([]byte{1}, 32)}, bytes.Repeat([]byte{'a'}, 32)
	for _, size := range []int{20, 1000, 4000} {
		record := make([]byte, size)
		b.Run(map[int]string{20: "commit", 1000: "step of 1 kB", 4000: "step of 4 kB"}[size], func(b *testing.B) {
			for b.Loop() {
				k.text(macRecord, "run", id, place(12345), record)
			}
		})
	}
}
