package bitset

import (
	"math/rand/v2"
	"testing"
)

// TestSet_MatchesBooleans compares a set with a slice of booleans, for sizes around the boundaries of words and levels.
func TestSet_MatchesBooleans(t *testing.T) {
	for _, n := range []int{1, 2, 63, 64, 65, 4095, 4096, 4097, 300_000} {
		r := rand.New(rand.NewPCG(uint64(n), 6))
		s, members := New(n), make([]bool, n)
		for range 2000 {
			x := r.Int32N(int32(n))
			if r.IntN(2) == 0 {
				s.Add(x)
				members[x] = true
			} else {
				s.Remove(x)
				members[x] = false
			}
			x = r.Int32N(int32(n) + 1) // the number after the last one is a valid argument
			want := int32(None)
			for y := int(x); y < n; y++ {
				if members[y] {
					want = int32(y)
					break
				}
			}
			if have := s.From(x); have != want {
				t.Fatalf("of %d: from(%d) = %d, want %d", n, x, have, want)
			}
		}
		for x, member := range members {
			if s.Has(int32(x)) != member {
				t.Fatalf("of %d: has(%d) = %v", n, x, !member)
			}
		}
	}
}
