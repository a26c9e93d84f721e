package wordcache

import (
	"encoding/binary"
	"slices"
)

// portableCache are the known words of an encoder without kernels: the most recent words, the short ones, and those of
// up to keyMax bytes. Each lookup step reads memory for all words without a branch that depends on the data. So the
// processor can wait for many reads in parallel.
type portableCache struct {
	hot   *hotCache
	brief *shortCache
	cache *cache

	ids      [batchSize]wordIDs // of the words that are found; manyIDs for words with more ids
	short    [batchSize]uint16  // the words of up to shortWord bytes that are not found yet
	shortKey [batchSize]uint64  // their keys
	key      [batchSize]wordKey // of the missing words
	place    [batchSize]uint32  // index in cache of each missing word
	touched  uint64             // prevents the compiler from removing the loads
}

func newPortableCache() *portableCache {
	c := &portableCache{hot: new(hotCache)}
	c.brief = offHeap[shortCache](c)
	c.cache = offHeap[cache](c)
	return c
}

// seed adds words that are one token.
func (c *portableCache) seed(w *seeds) {
	for text, id := range w.all() {
		var ids packedIDs
		if ids.pack([]int32{id}) && len(text) <= keyMax {
			c.insertWord(packWord(text, 0, len(text)), ids.first())
		}
	}
}

// find adds to m the words of s, from i on with the given ends, that are not in the caches. It also prefetches them
// in the shared words.
func (c *portableCache) find(t *sharedWords, s []byte, i int, ends []int32, m *missing) {
	short, long := c.separateLong(c.findHot(s, i, ends), m)
	c.pack(s, i, ends, m.word[:long])
	m.n = c.findBrief(c.short[:short], long, m)
	m.n = c.findCached(m.word[:m.n], m)
	for j, k := range m.word[:m.n] {
		if w := word(s, i, ends, int(k)); len(w) > keyMax {
			m.hash[j] = hashLong(w)
		} else {
			m.hash[j] = c.key[j].hash()
		}
	}
	t.prefetchBuckets(m.hash[:m.n], m.record[:m.n])
}

// findHot looks words up in the hot ones. It returns how many are missing.
func (c *portableCache) findHot(s []byte, i int, ends []int32) (missing int) {
	near := len(ends) // the words from here on start too near the end of s to read eight bytes
	for near > 1 && int(ends[near-2])+8 > len(s) {
		near--
	}
	if near == 1 && i+8 > len(s) {
		near = 0
	}
	for k, end := range ends[:near] {
		n := shortSize(int(end) - i)
		key := binary.LittleEndian.Uint64(s[i:i+8])&keyLo[n&15] | uint64(n)<<56
		missing = c.tryHot(k, key, missing)
		i = int(end)
	}
	for k := near; k < len(ends); k++ {
		n := shortSize(int(ends[k]) - i)
		missing = c.tryHot(k, packWord(s, i, i+n).lo|uint64(n)<<56, missing)
		i = int(ends[k])
	}
	return missing
}

// shortSize returns the smaller of n and shortWord+1. It does not branch, because the result is unpredictable.
func shortSize(n int) int {
	n -= shortWord + 1
	return shortWord + 1 + n&(n>>63)
}

// tryHot looks up the k-th word. The key of a word that is too long to be short matches no hot word.
func (c *portableCache) tryHot(k int, key uint64, missing int) int {
	p := &c.hot[c.hot.index(key)]
	c.ids[k&(batchSize-1)][0] = p.ids
	c.short[missing&(batchSize-1)] = uint16(k)
	c.shortKey[missing&(batchSize-1)] = key
	return missing + int(min(p.key^key, 1)) // not a branch: whether it is a hot one is unpredictable
}

// separateLong moves the longer ones of the first n words of short to the missing ones. It returns how many are left,
// and how many are moved.
func (c *portableCache) separateLong(n int, m *missing) (short, long int) {
	for j, k := range c.short[:n] {
		key := c.shortKey[j]
		m.word[long&(batchSize-1)] = k
		c.short[short&(batchSize-1)] = k
		c.shortKey[short&(batchSize-1)] = key
		isLong := int(key >> 59 & 1)
		long += isLong
		short += 1 - isLong
	}
	return short, long
}

// findBrief looks up short words. It appends missing ones to the first n missing words, and returns their total
// number.
func (c *portableCache) findBrief(short []uint16, n int, m *missing) (missing int) {
	keys := c.shortKey[:len(short)]
	var x uint64
	for _, key := range keys {
		x |= c.brief[shortLine(key)][0].key
	}
	c.touched = x
	for j, key := range keys {
		line := &c.brief[shortLine(key)]
		at := 0
		if line[1].key == key {
			at = 1
		}
		if line[2].key == key {
			at = 2
		}
		if line[3].key == key {
			at = 3
		}
		en := &line[at]
		c.ids[short[j]][0] = en.ids
		if en.key != key {
			m.word[n&(batchSize-1)] = short[j]
			c.key[n&(batchSize-1)] = longKey(key)
			n++
			continue
		}
		c.hot.insert(*en)
	}
	return n
}

// pack computes the keys of words. A long word has the key noWord.
func (c *portableCache) pack(s []byte, i int, ends []int32, words []uint16) {
	key := c.key[:len(words)]
	for j, k := range words {
		from := i
		if k > 0 {
			from = int(ends[k-1])
		}
		lo, hi := noWord.lo, noWord.hi
		if n := uint(int(ends[k]) - from); n <= keyMax {
			if from+16 <= len(s) {
				t := s[from : from+16]
				lo = binary.LittleEndian.Uint64(t) & keyLo[n]
				hi = binary.LittleEndian.Uint64(t[8:])&keyHi[n] | uint64(n)<<56
			} else {
				w := packWord(s, from, from+int(n))
				lo, hi = w.lo, w.hi
			}
		}
		key[j].lo, key[j].hi = lo, hi
	}
}

// findCached looks up missing words in the cache. It returns how many are still missing.
func (c *portableCache) findCached(list []uint16, m *missing) (still int) {
	cache := c.cache
	place := c.place[:len(list)]
	var x uint64
	for j := range place {
		p := c.key[j].place()
		place[j] = p
		x |= cache[p&uint32(len(cache)-1)].lo
	}
	c.touched = x
	for j, k := range list {
		p := place[j] & uint32(len(cache)-2)
		key := c.key[j]
		first := cache[p].diff(key)
		second := cache[p|1].diff(key)
		no := min(first, 1) // neither is a branch: which entry has a word, if any, is unpredictable
		c.ids[k] = cache[p|uint32(no)].ids
		m.word[still&(batchSize-1)] = k
		c.key[still&(batchSize-1)] = key
		still += int(no & min(second, 1))
	}
	return still
}

// learn stores the ids of the j-th missing word.
func (c *portableCache) learn(m *missing, j int, b *idBytes) {
	var ids packedIDs
	ids.read(b)
	some := ids.first()
	if some[0].count() > 2*idsEach {
		from := len(m.ids)
		m.ids = ids.append(m.ids)
		c.learnMany(m, j, from)
		return
	}
	c.ids[m.word[j]] = some
	if c.key[j] != noWord {
		c.insertWord(c.key[j], some)
	}
}

// learnMany stores that the ids of the j-th missing word are in m.ids from from on.
func (c *portableCache) learnMany(m *missing, j, from int) {
	c.ids[m.word[j]] = manyIDs(from, len(m.ids))
}

// insertWord inserts a word into its cache.
func (c *portableCache) insertWord(k wordKey, ids wordIDs) {
	if k.isShort() && ids[0].count() <= idsEach {
		b := shortEntry{k.shortKey(), ids[0]}
		c.hot.insert(b)
		c.brief.insert(b)
		return
	}
	c.cache.insert(k, ids)
}

// manyIDs represents ids of a word that are in m.ids of the missing words.
func manyIDs(from, to int) wordIDs {
	return wordIDs{idTriple(manyCount) << (idsEach * idBits), idTriple(from)<<32 | idTriple(to)}
}

// manyCount is a count above all possible ones.
const manyCount = 2*idsEach + 1

// append appends the ids of the n words of the batch, all of which are known now.
func (c *portableCache) append(dst []int32, n int, m *missing) []int32 {
	o := len(dst)
	dst = slices.Grow(dst, 2*idsEach*n)
	buf := dst[:cap(dst)]
	for k := range c.ids[:n] {
		v := &c.ids[k]
		v[0].writeTo((*[idsEach]int32)(buf[o:]))
		count := v[0].count()
		if count > idsEach {
			if count == manyCount {
				ids := m.ids[v[1]>>32 : v[1]&(1<<32-1)]
				dst = slices.Grow(append(buf[:o], ids...), 2*idsEach*(n-k))
				o += len(ids)
				buf = dst[:cap(dst)]
				continue
			}
			v[1].writeTo((*[idsEach]int32)(buf[o+idsEach:]))
		}
		o += count
	}
	return buf[:o]
}
