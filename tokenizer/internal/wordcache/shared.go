package wordcache

import (
	"encoding/binary"
	"sync"
	atomics "sync/atomic"
)

// sharedWords has the words that all encoders of a model share: words that were missing in some encoder's own cache,
// with their ids. It is bounded, and its words are never removed. For a long text it contains nearly all frequent
// words. It affects only the speed of encoding, never the result.
//
// A word's hash selects a bucket of eight slots, one cache line of the processor. A slot is 0, or has 32 bits of the
// hash, the number of bytes, and the place of a record. A record has the bytes, padded to a multiple of eight, and
// the ids. Records are only added, and a slot is written when its record is complete.
type sharedWords struct {
	slot   []atomics.Uint64
	record []byte
	used   atomics.Int64 // bytes of record; the first eight are unused, so that no record is at 0
}

const (
	bucketLog   = 17 // buckets: 8 MiB
	bucketSize  = 8
	recordBytes = 56 << 20 // of which the system allocates only used pages
	recordMax   = 255      // maximum bytes and ids of a word
	placeBits   = 24       // bits of a slot for a place in units of eight bytes
)

// newSharedWords returns a function that creates the shared words when the first encoder of a model calls it.
func newSharedWords() func() *sharedWords {
	return sync.OnceValue(func() *sharedWords {
		t := new(sharedWords)
		t.slot = offHeap[[bucketSize << bucketLog]atomics.Uint64](t)[:]
		t.record = offHeap[[recordBytes + len(idBytes{})]byte](t)[:]
		t.used.Store(8)
		return t
	})
}

// nextBucket, by exclusive or with a hash, gives the hash of the adjacent bucket, for words whose bucket is full.
const nextBucket = uint64(1) << (64 - bucketLog)

// bucket returns the bucket of a word with a hash.
func (t *sharedWords) bucket(hash uint64) *[bucketSize]atomics.Uint64 {
	return (*[bucketSize]atomics.Uint64)(t.slot[hash>>(64-bucketLog)*bucketSize:])
}

// tag returns the bits of a slot above the place, for the word of n bytes with a hash.
func tag(hash uint64, n int) uint64 { return hash<<32>>placeBits | uint64(n) }

// findRecord returns the place of the record of the word of n bytes with a hash, or 0. Another word may have the same
// tag.
func (t *sharedWords) findRecord(hash uint64, n int) uint32 {
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

// isRecordOf reports whether the record at a place, of a word with the same number of bytes, is that of word.
func (t *sharedWords) isRecordOf(place uint32, word []byte) bool {
	n := len(word)
	r := t.record[place:][:n]
	if n < 8 || n > 32 {
		return string(r) == string(word)
	}
	second, third := middleOffsets(n)
	return (load64(r, 0)^load64(word, 0))|(load64(r, second)^load64(word, second))|
		(load64(r, third)^load64(word, third))|(load64(r, n-8)^load64(word, n-8)) == 0
}

// idsAt returns the ids of the record at a place, of a word of n bytes.
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

// insert stores the ids of a word, if room is available. packed has the same ids, or is nil if they do not fit.
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
			if v>>placeBits == name { // the word is already stored, or another word with the same tag
				return
			}
			continue
		}
		place := t.writeRecord(word, ids, packed)
		for v := name<<placeBits | place/8; place != 0 && i < bucketSize && !b[i].CompareAndSwap(0, v); i++ {
		}
		return
	}
}

// writeRecord writes a record. It returns its place, or 0 without room.
func (t *sharedWords) writeRecord(word []byte, ids []int32, packed *packedIDs) (place uint64) {
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

// touchBuckets reads the buckets of the words with these hashes. Its loop does nothing else, so that many reads
// proceed in parallel.
func (t *sharedWords) touchBuckets(hash []uint64) {
	var x uint64
	for _, h := range hash {
		x |= t.bucket(h)[0].Load()
	}
	keepLoads(x)
}

// touchRecords reads the records at these places.
func (t *sharedWords) touchRecords(places []uint32) {
	var x byte
	for _, p := range places {
		x |= t.record[p]
	}
	keepLoads(uint64(x))
}

// keepLoads prevents the compiler from removing the loads that its argument depends on.
//
//go:noinline
func keepLoads(uint64) {}
