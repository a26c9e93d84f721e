package arrowout

import (
	"math/rand/v2"
	"testing"
)

func TestNarrowed(t *testing.T) {
	for n := range 40 {
		ids, slots := make([]int32, n), make([]uint16, n)
		for i := range ids {
			ids[i] = rand.Int32N(wideLimit)
		}
		if !narrowed(slots, ids) {
			t.Fatalf("%d ids below 65,536 do not fit", n)
		}
		for i, id := range ids {
			if slots[i] != uint16(id) {
				t.Fatalf("id %d of %d is %d, want %d", i, n, slots[i], id)
			}
		}
		for i, id := range ids {
			for _, bad := range []int32{wideLimit, wideLimit + id, -1, -1 << 31, 1<<31 - 1} {
				ids[i] = bad
				if narrowed(slots, ids) {
					t.Fatalf("%d of %d fits uint16", bad, n)
				}
			}
			ids[i] = id
		}
	}
}

func BenchmarkNarrowed(b *testing.B) {
	ids, slots := make([]int32, 1<<18), make([]uint16, 1<<18)
	b.SetBytes(int64(len(ids)) * 4)
	for b.Loop() {
		narrowed(slots, ids)
	}
}
