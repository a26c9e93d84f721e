//go:build (amd64 || arm64) && !purego

package wordcache

import (
	"unsafe"

	"loaderd/internal/cpufeature"
)

//go:noescape
func packKernel(t *line, s *byte, i int, ends []int32, keys *lineKey, places *uint32)

//go:noescape
func matchKernel(t *line, keys []lineKey, places *uint32, missing *uint16, n, first int) int

//go:noescape
func emitKernel(t *line, dst *int32, places []uint32) (words, n int)

// prefetch prefetches the lines of memory at n places relative to base, and does not wait for them.
//
//go:noescape
func prefetch(base unsafe.Pointer, places *uint32, n int)

// pack computes the keys of the words of s from i on with the given ends, and the places of their lines, which it
// prefetches. s must have 16 bytes from the start of each word on.
func pack(t []line, s []byte, i int, ends []int32, keys []lineKey, places []uint32) {
	switch {
	case len(ends) == 0:
	case cpufeature.Kernels:
		_, _ = keys[len(ends)-1], places[len(ends)-1]
		packKernel(&t[0], &s[0], i, ends, &keys[0], &places[0])
	default:
		packPlain(s, i, ends, keys, places)
	}
}

// match replaces the places of the lines that have a word by those of its ids. It appends the other words to the
// first n of missing, where first is the index of the first word, and returns the new length of missing.
func match(t []line, keys []lineKey, places []uint32, missing *[batchSize]uint16, n, first int) int {
	switch {
	case len(keys) == 0:
		return n
	case cpufeature.Kernels:
		_, _ = places[len(keys)-1], missing[n+len(keys)-1]
		return matchKernel(&t[0], keys, &places[0], &missing[0], n, first)
	}
	return matchPlain(t, keys, places, missing, n, first)
}

// emit writes the ids at places to dst, up to a word whose ids are elsewhere. It returns the number of these words
// and of ids. dst must have room for lineIDs+1 ids per word.
func emit(t []line, dst []int32, places []uint32) (words, n int) {
	switch {
	case len(places) == 0:
		return 0, 0
	case cpufeature.Kernels:
		_ = dst[(lineIDs+1)*len(places)-1]
		return emitKernel(&t[0], &dst[0], places)
	}
	return emitPlain(t, dst, places)
}

// prefetchBuckets prefetches the buckets of the words with these hashes; scratch has the same length.
func (t *sharedWords) prefetchBuckets(hash []uint64, scratch []uint32) {
	if !cpufeature.Kernels || len(hash) == 0 {
		t.touchBuckets(hash)
		return
	}
	for j, h := range hash {
		scratch[j] = uint32(h>>(64-bucketLog)) * bucketSize * 8
	}
	prefetch(unsafe.Pointer(&t.slot[0]), &scratch[0], len(hash))
}

// prefetchRecords prefetches the records at these places.
func (t *sharedWords) prefetchRecords(places []uint32) {
	if !cpufeature.Kernels || len(places) == 0 {
		t.touchRecords(places)
		return
	}
	prefetch(unsafe.Pointer(&t.record[0]), &places[0], len(places))
}
