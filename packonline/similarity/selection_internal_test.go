package similarity

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSmallest_MovesSmallestToFront checks that smallest moves the smallest elements to the front, for lists in every
// order, including those that are partitioned badly.
func TestSmallest_MovesSmallestToFront(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	orders := map[string]func(i, n int) uint64{
		"random":     func(_, _ int) uint64 { return r.Uint64() },
		"few values": func(_, _ int) uint64 { return r.Uint64N(3) },
		"equal":      func(_, _ int) uint64 { return 7 },
		"rising":     func(i, _ int) uint64 { return uint64(i) },
		"falling":    func(i, n int) uint64 { return uint64(n - i) },
		"peak":       func(i, n int) uint64 { return uint64(min(2*i, 2*(n-i)+1)) },
		"valley":     func(i, n int) uint64 { return uint64(max(2*i, 2*(n-i)+1)) },
	}
	for name, value := range orders {
		for range 300 {
			list := make([]uint64, r.IntN(300))
			for i := range list {
				list[i] = value(i, len(list))
			}
			want := slices.Sorted(slices.Values(list))
			k := r.IntN(len(list) + 1)
			selectSmallest(list, k)
			slices.Sort(list[:k])
			slices.Sort(list[k:])
			if !slices.Equal(list, want) {
				t.Fatalf("%s, %d of %d: %v, want %v", name, k, len(list), list, want)
			}
		}
	}
}
