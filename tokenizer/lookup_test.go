package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/tokentest"
)

// Ids that are too large to be packed in caches, and words with too many ids, are encoded correctly each time.
func TestEncode_IDsOfAnySize(t *testing.T) {
	f := smallFile([2]string{"a", "b"}, [2]string{"c", "d"}, [2]string{"ab", "cd"})
	vocab := f["model"].(object)["vocab"].(object)
	const packed = 1<<20 - 1 // the largest id that caches pack
	vocab["ab"], vocab["cd"], vocab["abcd"] = packed, packed+1, merge.MaxID
	m := mustLoadFile(t, f, Options{})
	n, e := newNaive(f, m.def.Family.Name), m.NewEncoder()
	for range 3 {
		for _, text := range []string{"ab", "cd", "abcd", " ab", "xcd abcdx", "abab cdcd", "abababab", "cdcdcdxcdx",
			strings.Repeat("ab", 12)} {
			compareWithNaive(t, n, e, []byte(text))
		}
	}
}

// Concurrent encoders share words.
func TestEncoder_ConcurrentEncodersShareWords(t *testing.T) {
	m := load(t, "cl100k_base")
	other, err := Load("cl100k_base", Options{}) // shares nothing with m
	if err != nil {
		t.Fatal(err)
	}
	alone := other.NewEncoder()
	r := rand.New(rand.NewPCG(9, 10))
	var texts [][]byte
	var want [][]int32
	for range 300 {
		texts = append(texts, norm.AppendValid(nil, tokentest.RandomText(r)))
		want = append(want, alone.Encode(nil, texts[len(texts)-1]))
	}
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			e := m.NewEncoder()
			for i := range texts {
				i = (i + k*70) % len(texts)
				if got := e.Encode(nil, texts[i]); !slices.Equal(got, want[i]) {
					t.Errorf("%q gives %v, want %v", texts[i], got, want[i])
					return
				}
			}
		})
	}
	wg.Wait()
}
