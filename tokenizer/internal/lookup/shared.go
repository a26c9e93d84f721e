package lookup

import (
	"encoding/binary"
	"sync"
	atomics "sync/atomic"
)

// sharedWords is what all encoders of a model know together: words that some encoder did not have in its own cache, with
// their ids. It is bounded, and a word that is in it stays; of a long text it has nearly all words that come again and
// again. Which words are in it changes how long encoding takes, never what it gives.
//
// A word's hash names a bucket of eight slots, one line of the processor's caches. A slot is 0, or has 32 bits of the hash
// above the place of a record: the number of bytes and of ids, the bytes, the ids. Records are only ever added, and a
// slot is written when its record is complete.
type sharedWords struct {
	slot   []atomics.Uint64
	record []byte
	used   atomics.Int64 // bytes of record; the first eight are not used, so that no record is at 0
}

const (
	bucketLog   = 17 // buckets: 8 MiB
	bucketSize  = 8
	recordBytes = 56 << 20 // of which the system gives only what is used
	recordMax   = 255      // bytes of a word, and ids of it
)

// newSharedWords returns a function that makes the words of a model when its first encoder asks for them.
func newSharedWords() func() *sharedWords {
	return sync.OnceValue(func() *sharedWords {
		t := new(sharedWords)
		t.slot = offHeap[[bucketSize << bucketLog]atomics.Uint64](t)[:]
		t.record = offHeap[[recordBytes]byte](t)[:]
		t.used.Store(8)
		return t
	})
}

// nextBucket, by exclusive or with a hash, gives that of the bucket beside its own, for words that find that one full.
const nextBucket = uint64(1) << (64 - bucketLog)

// bucket is where a word with a hash may be.
func (t *sharedWords) bucket(hash uint64) *[bucketSize]atomics.Uint64 {
	return (*[bucketSize]atomics.Uint64)(t.slot[hash>>(64-bucketLog)*bucketSize:])
}

// place is that of the record of the word with a hash, or 0. Another word may have the same.
func (t *sharedWords) place(hash uint64) uint32 {
	for range 2 {
		b := t.bucket(hash)
		for i := range b {
			v := b[i].Load()
			if v>>32 == hash&0xFFFFFFFF || v == 0 {
				return uint32(v)
			}
		}
		hash ^= nextBucket
	}
	return 0
}

// has tells whether the record at a place is that of word.
func (t *sharedWords) has(place uint32, word []byte) bool {
	r := t.record[place:]
	return int(r[0]) == len(word) && string(r[2:2+len(word)]) == string(word)
}

// appendIDs appends the ids of the record at a place.
func (t *sharedWords) appendIDs(dst []int32, place uint32) []int32 {
	r := t.record[place:]
	n := r[1]
	for r = r[2+int(r[0]):]; n > 0; n-- {
		dst = append(dst, int32(binary.LittleEndian.Uint32(r)))
		r = r[4:]
	}
	return dst
}

// insert keeps the ids of a word, if there is room for it.
func (t *sharedWords) insert(hash uint64, word []byte, ids []int32) {
	size := int64(2+len(word)+4*len(ids)+7) &^ 7
	if len(word) > recordMax || len(ids) > recordMax || t.used.Load()+size > recordBytes {
		return
	}
	b := t.bucket(hash)
	if b[bucketSize-1].Load() != 0 { // it is full
		b = t.bucket(hash ^ nextBucket)
	}
	for i := range b {
		if v := b[i].Load(); v != 0 {
			if v>>32 == hash&0xFFFFFFFF { // it is there already, or a word that hides it
				return
			}
			continue
		}
		end := t.used.Add(size)
		if end > recordBytes {
			return
		}
		place := end - size
		r := append(t.record[place:place:end], byte(len(word)), byte(len(ids)))
		r = append(r, word...)
		for _, id := range ids {
			r = binary.LittleEndian.AppendUint32(r, uint32(id))
		}
		for v := hash<<32 | uint64(place); i < bucketSize && !b[i].CompareAndSwap(0, v); i++ {
		}
		return
	}
}

// touchBuckets reads the buckets of the words with these hashes. Nothing else is in its loop, so that many places are waited for at once.
func (t *sharedWords) touchBuckets(hash []uint64) {
	var x uint64
	for _, h := range hash {
		x |= t.bucket(h)[0].Load()
	}
	touch(x)
}

// touchRecords reads the records at these places.
func (t *sharedWords) touchRecords(places []uint32) {
	var x byte
	for _, p := range places {
		x |= t.record[p]
	}
	touch(uint64(x))
}

// touch keeps the loads that its argument comes of.
//
//go:noinline
func touch(uint64) {}
