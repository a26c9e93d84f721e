//go:build !amd64 || purego

package wordcache

// pack makes the keys of the words of s that start at i and end at ends, and the places of their lines. From the start
// of each word on s has 16 bytes.
func pack(_ []line, s []byte, i int, ends []int32, keys []lineKey, places []uint32) {
	packPlain(s, i, ends, keys, places)
}

// match turns the places of the lines that have a word into those of its ids. It puts the other words behind the first
// n of missing, where first is what the first word is, and returns how many missing has then.
func match(t []line, keys []lineKey, places []uint32, missing *[batchSize]uint16, n, first int) int {
	return matchPlain(t, keys, places, missing, n, first)
}

// emit writes the ids at places to dst, up to one that has them elsewhere. It returns how many words and ids these are.
// dst has room for lineIDs+1 ids of each word.
func emit(t []line, dst []int32, places []uint32) (words, n int) { return emitPlain(t, dst, places) }

// askBuckets asks for the buckets of the words with these hashes.
func (t *sharedWords) askBuckets(hash []uint64, _ []uint32) { t.touchBuckets(hash) }

// askRecords asks for the records at these places.
func (t *sharedWords) askRecords(places []uint32) { t.touchRecords(places) }
