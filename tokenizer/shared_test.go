package tokenizer

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// Encoders that run at the same time write down words for one another.
func TestEncodersShareWords(t *testing.T) {
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
		texts = append(texts, appendValid(nil, randomText(r)))
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

func TestSharedWordsAreBounded(t *testing.T) {
	words := newSharedWords()()
	size := len(words.entry)
	for i := range 2000 {
		k := packLong([]byte{byte(i), byte(i >> 8), 'x'})
		words.insert(&k, []int32{int32(i), -int32(i)})
		words.insert(&k, []int32{0})
		if got := words.find(&k); got != nil && !slices.Equal(got, []int32{int32(i), -int32(i)}) {
			t.Fatalf("word %d has %v", i, got)
		}
	}
	if len(words.entry) != size {
		t.Errorf("%d entries have become %d", size, len(words.entry))
	}
	k := packLong([]byte("never put in"))
	if got := words.find(&k); got != nil {
		t.Errorf("a word that is not there has %v", got)
	}
}
