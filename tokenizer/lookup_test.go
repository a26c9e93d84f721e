package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

// Pieces of a huge word push words out of the cache while those behind it wait to be encoded: these are found all the same.
func TestWordsBehindHugeOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, name := range Builtin() {
		m := load(t, name)
		e := m.NewEncoder()
		var s longScratch
		plain, tokens := withoutGreedy(m.def.merges), m.byID()
		for range 40 {
			var text []byte
			for range 10 {
				for range 20 + r.IntN(20) {
					text = append(append(text, ' '), tokens[300+r.IntN(20_000)]...)
				}
				for range 1024 {
					text = append(text, string(rune(0x4E00+r.IntN(3000)))...)
				}
			}
			text = norm.AppendValid(nil, text)
			var want []int32
			var w pretokenize.Batch
			for i := 0; i < len(text); {
				n, end := m.split.Split(text, i, &w)
				for _, next := range w.Ends[:n] {
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

// The caches pack ids; those that are too large for that, and words of too many, are encoded all the same, each time.
func TestIDsOfAnySize(t *testing.T) {
	f := tokentest.SmallFile([2]string{"a", "b"}, [2]string{"c", "d"}, [2]string{"ab", "cd"})
	vocab := f["model"].(tokentest.Object)["vocab"].(tokentest.Object)
	vocab["ab"], vocab["cd"], vocab["abcd"] = idMask, idMask+1, maxID
	m := mustLoadFile(t, f, Options{})
	n, e := newNaive(f, m.def.family.Name), m.NewEncoder()
	for range 3 {
		for _, text := range []string{"ab", "cd", "abcd", " ab", "xcd abcdx", "abab cdcd", "abababab", "cdcdcdxcdx", strings.Repeat("ab", 12)} {
			compareWithNaive(t, n, e, []byte(text))
		}
	}
}
