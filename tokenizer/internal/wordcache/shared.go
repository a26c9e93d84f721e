package wordcache

import (
	"encoding/binary"
	"sync"
	atomics "sync/atomic"
)

// sharedWords is what all encoders of a model know together: words that some encoder did not have in its own cache,
// with their ids. It is bounded, and a word that is in it stays; of a long text it has nearly all words that come again
// and again. Which words are in it changes how long encoding takes, never what it gives.
//
// A word's hash names a bucket of eight slots, one line of the processor's caches. A slot is 0, or has 32 bits of the
// hash, the number of bytes, and the place of a record: the bytes, with room up to a multiple of eight, and the ids.
// Records are only ever added, and a slot is written when its record is complete.
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
	placeBits   = 24       // of a slot, for a place in eights of bytes
)

// newSharedWords returns a function that makes the words of a model when its first encoder asks for them.
func newSharedWords() func() *sharedWords {
	return sync.OnceValue(func() *sharedWords {
		t := new(sharedWords)
		t.slot = offHeap[[bucketSize << bucketLog]atomics.Uint64](t)[:]
		t.record = offHeap[[recordBytes + len(idBytes{})]byte](t)[:]
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

// tag is what a slot has above the place, for the word of n bytes with a hash.
func tag(hash uint64, n int) uint64 { return hash<<32>>placeBits | uint64(n) }

// place is the place of the record of the word of n bytes with a hash, or 0. Another word may have the same.
func (t *sharedWords) place(hash uint64, n int) uint32 {
	if n > recordMax {
		return 0
	}
	name := tag(hash, n)
	for range 2 {
		b := t.bucket(hash)
		var found uint64
		for i := range b { // not a branch: which slot it is, if any, is unpredictable
			if v := b[i].Load(); v>>placeBits == name {
				found = v
			}
		}
		if found != 0 || b[bucketSize-1].Load() == 0 {
			return uint32(found&(1<<placeBits-1)) * 8
		}
		hash ^= nextBucket
	}
	return 0
}

// has tells whether the record at a place, which is that of a word of as many bytes, is that of word.
func (t *sharedWords) has(place uint32, word []byte) bool {
	n := len(word)
	r := t.record[place:][:n]
	if n < 8 || n > 32 {
		return string(r) == string(word)
	}
	second, third := twoBetween(n)
	return (eight(r, 0)^eight(word, 0))|(eight(r, second)^eight(word, second))|
		(eight(r, third)^eight(word, third))|(eight(r, n-8)^eight(word, n-8)) == 0
}

// idsAt are the ids of the record at a place, of a word of n bytes.
func (t *sharedWords) idsAt(place uint32, n int) *idBytes {
	return (*idBytes)(t.record[int(place)+(n+7)&^7:])
}

// appendIDs appends the ids of a record that has them unpacked.
func (t *sharedWords) appendIDs(dst []int32, place uint32, n int) []int32 {
	r := t.record[int(place)+(n+7)&^7:]
	for left := r[0]; left > 0; left-- {
		r = r[4:]
		dst = append(dst, int32(binary.LittleEndian.Uint32(r[4:])))
	}
	return dst
}

// insert keeps the ids of a word, if there is room for it. packed are they once more, or nil if they do not fit.
func (t *sharedWords) insert(hash uint64, word []byte, ids []int32, packed *packedIDs) {
	if len(word) > recordMax || len(ids) > recordMax {
		return
	}
	b := t.bucket(hash)
	if b[bucketSize-1].Load() != 0 { // it is full
		b = t.bucket(hash ^ nextBucket)
	}
	name := tag(hash, len(word))
	for i := range b {
		if v := b[i].Load(); v != 0 {
			if v>>placeBits == name { // it is there already, or a word that hides it
				return
			}
			continue
		}
		place := t.put(word, ids, packed)
		for v := name<<placeBits | place/8; place != 0 && i < bucketSize && !b[i].CompareAndSwap(0, v); i++ {
		}
		return
	}
}

// put makes a record. It returns its place, or 0 if there is no room.
func (t *sharedWords) put(word []byte, ids []int32, packed *packedIDs) (place uint64) {
	behind := (len(word) + 7) &^ 7
	size := behind + 8*max(1, (len(ids)+idsEach-1)/idsEach)
	if packed == nil {
		size = behind + 8 + (4*len(ids)+7)&^7
	}
	if t.used.Load()+int64(size) > recordBytes {
		return 0
	}
	end := t.used.Add(int64(size))
	if end > recordBytes {
		return 0
	}
	place = uint64(end) - uint64(size)
	r := t.record[place:end]
	copy(r, word)
	r = r[behind:]
	if packed != nil {
		for i := 0; 8*i < len(r); i++ {
			binary.LittleEndian.PutUint64(r[8*i:], packed[i&3])
		}
		return place
	}
	binary.LittleEndian.PutUint64(r, elsewhere<<(idsEach*idBits)|uint64(len(ids)))
	for i, id := range ids {
		binary.LittleEndian.PutUint32(r[8+4*i:], uint32(id))
	}
	return place
}

// touchBuckets reads the buckets of the words with these hashes. Nothing else is in its loop, so that many places are
// waited for at once.
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
