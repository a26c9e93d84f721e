package wordcache

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

// wordsOf returns the words of a built-in tokenizer, and its definition.
func wordsOf(t *testing.T, name string) (*Words, *definition.Definition) {
	t.Helper()
	d := tokentest.Builtin(t, name)
	w, _ := New(d.Merges, d.TokensByID(), Rules{WholeWords: d.WholeWords, SplitsWords: d.IsSplitIntoWords()})
	d.Merges.PrepareGreedy(d.TokensByID())
	return w, d
}

// Pieces of a huge word evict words from the cache while words after it wait to be encoded. These are still found.
func TestEncoder_WordsAfterHugeWord(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, name := range definition.Builtin() {
		m, d := wordsOf(t, name)
		e := m.NewEncoder()
		var s merge.Scratch
		plain, tokens := tokentest.Builtin(t, name).Merges, d.TokensByID()
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
				n, end := d.Family.Splitter.Split(text, i, &w)
				for _, next := range w.Ends[:n] {
					want = plain.Encode(&s, want, text[i:next])
					i = int(next)
				}
				i = end
			}
			if got := e.Encode(&d.Family.Splitter, nil, text); !slices.Equal(got, want) {
				k := 0
				for k < min(len(got), len(want))-1 && got[k] == want[k] {
					k++
				}
				t.Fatalf("%s: id %d of %d is %d, want %d", name, k, len(want), got[k], want[k])
			}
		}
	}
}

// Long words of characters that few tokens join are split into pieces, which are looked up in the caches.
func TestEncoder_LongWordsAreSplitExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, name := range definition.Builtin() {
		m, _ := wordsOf(t, name)
		plain := tokentest.Builtin(t, name).Merges
		var s merge.Scratch
		e := m.NewEncoder()
		for _, from := range []rune{0x4E00, 0x0E01, 0x0430, 0xAC00, 0x1F600, 0x0905} {
			for range 20 {
				var word []byte
				for range 1 + r.IntN(1200) {
					word = utf8.AppendRune(word, from+r.Int32N(40))
				}
				want := plain.Encode(&s, nil, word)
				for range 2 {
					got := e.encodePieces(nil, word, 0, []int32{int32(len(word))})
					if !slices.Equal(got, want) {
						t.Fatalf("%s: %q gives %v, want %v", name, word, got, want)
					}
				}
			}
		}
	}
}
