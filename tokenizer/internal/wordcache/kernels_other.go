//go:build (!amd64 && !arm64) || purego

package wordcache

// pack computes the keys of the words of s from i on with the given ends, and the places of their lines. s must have
// 16 bytes from the start of each word on.
func pack(_ []line, s []byte, i int, ends []int32, keys []lineKey, places []uint32) {
	packPlain(s, i, ends, keys, places)
}

// match replaces the places of the lines that have a word by those of its ids. It appends the other words to the
// first n of missing, where first is the index of the first word, and returns the new length of missing.
func match(t []line, keys []lineKey, places []uint32, missing *[batchSize]uint16, n, first int) int {
	return matchPlain(t, keys, places, missing, n, first)
}

// emit writes the ids at places to dst, up to a word whose ids are elsewhere. It returns the number of these words
// and of ids. dst must have room for lineIDs+1 ids per word.
func emit(t []line, dst []int32, places []uint32) (words, n int) { return emitPlain(t, dst, places) }

// prefetchBuckets prefetches the buckets of the words with these hashes.
func (t *sharedWords) prefetchBuckets(hash []uint64, _ []uint32) { t.touchBuckets(hash) }

// prefetchRecords prefetches the records at these places.
func (t *sharedWords) prefetchRecords(places []uint32) { t.touchRecords(places) }
