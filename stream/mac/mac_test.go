package mac

import (
	"bytes"
	"testing"
)

// A MAC is valid for one key, purpose, run and place only.
func TestKeyring_Verify(t *testing.T) {
	k, other := Keyring{bytes.Repeat([]byte{1}, 32)}, Keyring{bytes.Repeat([]byte{2}, 32)}
	record := []byte("record")
	code := k.Compute(Record, "run", []byte("id"), []byte("7"), record)
	if len(code) != Size || !k.Verify(code, Record, "run", []byte("id"), []byte("7"), record) {
		t.Fatal("a code is not its own")
	}
	rotated := append(other, k...)
	if !rotated.Verify(code, Record, "run", []byte("id"), []byte("7"), record) ||
		bytes.Equal(rotated.Compute(Record, "run"), k.Compute(Record, "run")) {
		t.Error("of several keys the first writes and all verify")
	}
	for what, taken := range map[string]bool{
		"another key":      other.Verify(code, Record, "run", []byte("id"), []byte("7"), record),
		"another place":    k.Verify(code, Record, "run", []byte("id"), []byte("8"), record),
		"another id":       k.Verify(code, Record, "run", []byte("ie"), []byte("7"), record),
		"another run":      k.Verify(code, Record, "runs", []byte("id"), []byte("7"), record),
		"another thing":    k.Verify(code, Checkpoint, "run", []byte("id"), []byte("7"), record),
		"another record":   k.Verify(code, Record, "run", []byte("id"), []byte("7"), []byte("recore")),
		"parts cut apart":  k.Verify(code, Record, "run", []byte("i"), []byte("d7"), record),
		"a part of it":     k.Verify(code[:8], Record, "run", []byte("id"), []byte("7"), record),
		"no code":          k.Verify(nil, Record, "run", []byte("id"), []byte("7"), record),
		"no text":          k.VerifyHex("", Record, "run", []byte("id"), []byte("7"), record),
		"text of no digit": k.VerifyHex("zz", Record, "run", []byte("id"), []byte("7"), record),
	} {
		if taken {
			t.Errorf("%s has the code", what)
		}
	}
}

func BenchmarkKeyring_Text(b *testing.B) {
	k, id := Keyring{bytes.Repeat([]byte{1}, 32)}, bytes.Repeat([]byte{'a'}, 32)
	for _, size := range []int{20, 1000, 4000} {
		record := make([]byte, size)
		b.Run(map[int]string{20: "commit", 1000: "step of 1 kB", 4000: "step of 4 kB"}[size], func(b *testing.B) {
			for b.Loop() {
				k.ComputeHex(Record, "run", id, []byte("12345"), record)
			}
		})
	}
}
