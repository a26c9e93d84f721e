package tokenizer

import (
	"sync"
	atomics "sync/atomic"
)

// sharedWords is what all encoders of a model know together: words that some encoder has found in no cache, with their
// ids. It is bounded, and a word that is in it stays; of a long text it has nearly all words that come again and again.
// Which words are in it changes how long encoding takes, never what it gives.
type sharedWords struct {
	entry []sharedEntry
}

const (
	sharedLog   = 20 // entries: 64 MiB, of which the system gives only what is used
	sharedTries = 2  // entries where a word may be
)

// sharedEntry is a longEntry that is written once. The last part of the key is 0 in a free one, sharedBusy while it is
// written, and stored last: who has read it may read the rest.
type sharedEntry struct {
	head [3]uint64
	last atomics.Uint64
	ids  [longIDs]int32
}

const sharedBusy = ^uint64(0)

// newSharedWords returns a function that makes the words of a model when its first encoder asks for them.
func newSharedWords() func() *sharedWords {
	return sync.OnceValue(func() *sharedWords { return &sharedWords{make([]sharedEntry, 1<<sharedLog)} })
}

func (t *sharedWords) home(k *longKey) uint32 {
	return uint32(mix(mix(k[0], k[1])^k[2], k[3]) >> (64 - sharedLog))
}

// find returns a word's ids, or nil.
func (t *sharedWords) find(k *longKey) []int32 {
	h := t.home(k)
	for i := range uint32(sharedTries) {
		e := &t.entry[h^i]
		last := e.last.Load()
		if last == 0 {
			return nil
		}
		if x := last ^ k[3]; x&(1<<longCountBit-1) == 0 && last != sharedBusy && e.head == [3]uint64(k[:3]) {
			return e.ids[:x>>longCountBit+1]
		}
	}
	return nil
}

// insert keeps the 1..longIDs ids of a word, if there is room for it.
func (t *sharedWords) insert(k *longKey, ids []int32) {
	h := t.home(k)
	for i := range uint32(sharedTries) {
		e := &t.entry[h^i]
		if e.last.Load() == 0 && e.last.CompareAndSwap(0, sharedBusy) {
			e.head = [3]uint64(k[:3])
			copy(e.ids[:], ids)
			e.last.Store(k[3] | uint64(len(ids)-1)<<longCountBit)
			return
		}
	}
}
