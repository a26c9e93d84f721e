package tokenizer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Pieces of a huge word go into the cache while the words behind it wait to be encoded: these are found all the same.
func TestWordsBehindHugeOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, name := range Builtin() {
		m := load(t, name)
		e := m.NewEncoder()
		var s longScratch
		plain, tokens := withoutGreedy(m.merges), m.byID()
		for range 40 {
			var text []byte
			for range 10 {
				for range 20 + r.IntN(20) {
					text = append(append(text, ' '), tokens[300+r.IntN(20_000)]...)
				}
				for range hugeWord {
					text = append(text, string(rune(0x4E00+r.IntN(3000)))...)
				}
			}
			text = appendValid(nil, text)
			var want []int32
			var w wordBatch
			for i := 0; i < len(text); {
				n, end := m.split.split(text, i, &w)
				for _, next := range w.ends[:n] {
					want = plain.encode(&s, want, text[i:next])
					i = int(next)
				}
				i = end
			}
			if got := e.Encode(nil, text); !slices.Equal(got, want) {
				k := 0
				for k < min(len(got), len(want))-1 && got[k] == want[k] {
					k++
				}
				t.Fatalf("%s: id %d of %d is %d, want %d", name, k, len(want), got[k], want[k])
			}
		}
	}
}
