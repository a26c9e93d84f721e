package wordcache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"loaderd/tokenizer/internal/merge"
)

func TestEntry_DiffComparesKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	few := func() uint64 { return r.Uint64N(4) << (8 * r.Uint64N(2)) } // so that words share bits
	for range 200_000 {
		en, k := entry{wordKey: wordKey{few(), few()}}, wordKey{few(), few()}
		if same := en.diff(k) == 0; same != (en.wordKey == k) {
			t.Fatalf("%x and %x are taken for the same: %t", en.wordKey, k, same)
		}
	}
}

// Words that share places in the caches replace each other, and none is confused with another.
func TestCaches_WordsOfSharedSlotsAreDistinct(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, letters := range []string{"ACGT", "abcdefghijklmnopqrstuvwxyz"} {
		m, d := wordsOf(t, "gpt2")
		e := m.NewEncoder()
		var s merge.Scratch
		for range 400 {
			var text []byte
			var want []int32
			for range 1_000 { // enough for most lines to get several words
				word := []byte{' '}
				for range 5 + r.IntN(9) {
					word = append(word, letters[r.IntN(len(letters))])
				}
				text = append(text, word...)
				want = m.merges.Encode(&s, want, word)
			}
			if got := e.Encode(&d.Family.Splitter, nil, text); !slices.Equal(got, want) {
				t.Fatalf("%.100q... gives %.20v..., want %.20v...", text, got, want)
			}
		}
	}
}
