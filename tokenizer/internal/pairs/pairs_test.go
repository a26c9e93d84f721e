package pairs_test

import (
	"math/rand/v2"
	"testing"

	"loaderd/tokenizer/internal/pairs"
)

// A table behaves like a map, whatever its initial size. Its filter excludes no pair of the table, but most others.
func TestTable_BehavesLikeMap(t *testing.T) {
	const n = 5000
	for _, room := range []int{0, 100, n} {
		r := rand.New(rand.NewPCG(1, uint64(room)))
		symbol := func() uint32 { // few different ones, so that pairs repeat; with the minimum and the maximum
			return []uint32{0, 1, pairs.SymbolMask, r.Uint32N(20), r.Uint32N(1 << pairs.SymbolBits)}[r.IntN(5)]
		}
		table, want := pairs.New(room), map[[2]uint32]uint32{}
		for rank := range uint32(n) {
			pair := [2]uint32{symbol(), symbol()}
			want[pair] = rank
			table.Put(pair[0], pair[1], rank)
		}
		for pair, rank := range want {
			if have := table.Rank(pair[0], pair[1]); have != rank || !table.Filter.MayHave(pair[0], pair[1]) {
				t.Fatalf("room for %d: pair %v has rank %d, want %d, the filter reports %v", room, pair, have, rank,
					table.Filter.MayHave(pair[0], pair[1]))
			}
		}
		asked, said := 0, 0
		for range n {
			pair := [2]uint32{symbol(), symbol()}
			if _, there := want[pair]; there {
				continue
			}
			if have := table.Rank(pair[0], pair[1]); have != pairs.None {
				t.Fatalf("room for %d: pair %v, which is not there, has rank %d", room, pair, have)
			}
			asked++
			said += table.Filter.BitOf(pairs.Key(pair[0], pair[1]))
		}
		if said > asked/4 {
			t.Errorf("room for %d: the filter says of %d pairs out of %d that they may be there", room, said, asked)
		}
	}
}
