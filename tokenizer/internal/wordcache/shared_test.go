package wordcache

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

func (t *sharedWords) idsOf(hash uint64, word []byte) (ids []int32, ok bool) {
	p := t.findRecord(hash, len(word))
	if p == 0 || !t.isRecordOf(p, word) {
		return nil, false
	}
	b := t.idsAt(p, len(word))
	if !b.isPacked() {
		return t.appendIDs(nil, p, len(word)), true
	}
	var packed packedIDs
	packed.read(b)
	return packed.append(nil), true
}

// keep is insert with unpacked ids.
func (t *sharedWords) keep(hash uint64, word []byte, ids []int32) {
	var packed packedIDs
	if packed.pack(ids) {
		t.insert(hash, word, ids, &packed)
	} else {
		t.insert(hash, word, ids, nil)
	}
}

func TestSharedWords_AreBounded(t *testing.T) {
	words := newSharedWords()()
	ids := make([]int32, recordMax)
	for i := range ids {
		ids[i] = int32(idMask - 100 + i) // some too large to be packed
	}
	var word []byte
	kept := 0
	for i := range 200_000 {
		word = fmt.Appendf(word[:0], "%0*d", 8+i%200, i)
		hash := hashLong(word)
		words.keep(hash, word, ids[:1+i%recordMax])
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
	if words.keep(1, make([]byte, recordMax+1), ids); words.findRecord(1, recordMax+1) != 0 {
		t.Error("a word is kept that is too long")
	}
	if got, ok := words.idsOf(2, []byte("never put in")); ok {
		t.Errorf("a word that is not there has %v", got)
	}
}

// A word is not confused with one that differs in any byte, and all of its ids are stored.
func TestSharedWords_CompareEveryByte(t *testing.T) {
	words := newSharedWords()()
	for n := 1; n <= 70; n++ {
		word, hash := bytes.Repeat([]byte{'a'}, n), uint64(n)<<(64-bucketLog)
		ids := make([]int32, (n-1)%(lineIDs+2))
		for i := range ids {
			ids[i] = int32(n + i)
		}
		words.keep(hash, word, ids)
		if got, ok := words.idsOf(hash, word); !ok || !slices.Equal(got, ids) {
			t.Fatalf("%d bytes have %v, want %v", n, got, ids)
		}
		for i := range word {
			other := slices.Clone(word)
			other[i] = 'b'
			if got, ok := words.idsOf(hash, other); ok {
				t.Fatalf("%s has %v", other, got)
			}
			if n > shortWord && hashLong(other) == hashLong(word) {
				t.Fatalf("%s and %s have one hash", word, other)
			}
		}
	}
}

// Of two words with the same hash the first is kept, and the second is not confused with it.
func TestSharedWords_FirstOfEqualHashesIsKept(t *testing.T) {
	words := newSharedWords()()
	words.keep(7, []byte("first"), []int32{1})
	words.keep(7, []byte("first"), []int32{0}) // not stored
	words.keep(7, []byte("other"), []int32{2})
	if got, ok := words.idsOf(7, []byte("first")); !ok || got[0] != 1 {
		t.Errorf("the first has %v", got)
	}
	if got, ok := words.idsOf(7, []byte("other")); ok {
		t.Errorf("the other has %v", got)
	}
}
