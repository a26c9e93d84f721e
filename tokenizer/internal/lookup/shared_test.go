package lookup

import (
	"fmt"
	"slices"
	"testing"
)

func (t *sharedWords) idsOf(hash uint64, word []byte) (ids []int32, ok bool) {
	if p := t.place(hash); t.has(p, word) {
		return t.appendIDs(nil, p), true
	}
	return nil, false
}

func TestSharedWordsAreBounded(t *testing.T) {
	words := newSharedWords()()
	ids := make([]int32, recordMax)
	for i := range ids {
		ids[i] = int32(-i)
	}
	var word []byte
	kept := 0
	for i := range 200_000 {
		word = fmt.Appendf(word[:0], "%0*d", 6+i%200, i)
		hash := hashLong(word)
		words.insert(hash, word, ids[:1+i%recordMax])
		got, ok := words.idsOf(hash, word)
		if ok != (got != nil) || ok && !slices.Equal(got, ids[:1+i%recordMax]) {
			t.Fatalf("word %d has %v", i, got)
		}
		if ok {
			kept++
		}
	}
	if kept < 50_000 || kept == 200_000 || words.used.Load() > recordBytes {
		t.Errorf("%d words are kept, in %d bytes", kept, words.used.Load())
	}
	if words.insert(1, make([]byte, recordMax+1), ids); words.place(1) != 0 {
		t.Error("a word is kept that is too long")
	}
	if got, ok := words.idsOf(2, []byte("never put in")); ok {
		t.Errorf("a word that is not there has %v", got)
	}
}

// Two words of one hash: the first is kept, and the second is not taken for it.
func TestSharedWordsOfOneHash(t *testing.T) {
	words := newSharedWords()()
	words.insert(7, []byte("first"), []int32{1})
	words.insert(7, []byte("first"), []int32{0}) // comes too late
	words.insert(7, []byte("other"), []int32{2})
	if got, ok := words.idsOf(7, []byte("first")); !ok || got[0] != 1 {
		t.Errorf("the first has %v", got)
	}
	if got, ok := words.idsOf(7, []byte("other")); ok {
		t.Errorf("the other has %v", got)
	}
}
