package order_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/internal/order"
)

type pair struct{ key, place int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

// Lists come out as from package slices, also where keys are equal: the two have one algorithm.
func TestAsPackageSlices(t *testing.T) {
	for n := range 200 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{rand.IntN(n/3 + 1), i}
		}
		got, want := slices.Clone(list), slices.Clone(list)
		order.Sort(got, byKey)
		slices.SortFunc(want, byKey)
		if !slices.Equal(got, want) {
			t.Fatalf("Sort: %v, want %v", got, want)
		}
		if sorted := order.Sorted(slices.Values(list), byKey); !slices.Equal(sorted, want) {
			t.Fatalf("Sorted: %v, want %v", sorted, want)
		}
		got, want = slices.Clone(list), slices.Clone(list)
		order.SortStable(got, byKey)
		slices.SortStableFunc(want, byKey)
		if !slices.Equal(got, want) {
			t.Fatalf("SortStable: %v, want %v", got, want)
		}
	}
}
