package trie_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/trie"
)

func TestNew_BoundsKeys(t *testing.T) {
	if _, err := trie.New([]trie.Key{{Text: strings.Repeat("a", 512)}}); err != nil {
		t.Error(err)
	}
	if _, err := trie.New([]trie.Key{{Text: strings.Repeat("a", 513)}}); err == nil {
		t.Error("no error for a key of 513 bytes")
	}
}

// The longest key is that of a search through all keys.
func TestTrie_FindsLongestKey(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for range 200 {
		letters := "ab\x00\xff\xe4"[:2+r.IntN(4)]
		keys := map[string]int32{}
		for range r.IntN(300) {
			keys[word(letters, 1+r.IntN(8))] = r.Int32()
		}
		var list []trie.Key
		for text, value := range keys {
			list = append(list, trie.Key{Text: text, Value: value})
		}
		tr, err := trie.New(list)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			text := word(letters+"c", r.IntN(12))
			want, value := 0, int32(0)
			for n := 1; n <= len(text); n++ {
				if v, ok := keys[text[:n]]; ok {
					want, value = n, v
				}
			}
			if n, v := tr.Longest(trie.Root, []byte(text)); n != want || n > 0 && v != value {
				t.Fatalf("%q starts with a key of %d bytes, value %d; want %d, %d", text, n, v, want, value)
			}
		}
	}
}
