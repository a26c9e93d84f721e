// Package wordcache encodes the words of a text, with caches of the ids of earlier words.
package wordcache

import (
	"encoding/binary"
	"math/bits"
)

// The caches of an Encoder exist because most words of a text have occurred before, and a word's ids depend only on
// the word.
const (
	keyMax        = 15 // maximum bytes of a word in the cache
	cacheLog      = 16 // lines: 4 MiB
	shortWord     = 7  // maximum bytes of a word that has a shortKey
	shortCacheLog = 16 // lines: 4 MiB
	hotLog        = 13 // hot words: 128 KiB
)

// idTriple are up to three ids of a word, and in the bits above them the number of its ids.
type idTriple uint64

const (
	idsEach = 3
	idBits  = 20
	idMask  = 1<<idBits - 1
)

func (v idTriple) count() int { return int(v >> (idsEach * idBits)) }

// writeTo writes idsEach ids to dst; those beyond the number of ids are meaningless.
func (v idTriple) writeTo(dst *[idsEach]int32) {
	dst[0] = int32(v & idMask)
	dst[1] = int32(v >> idBits & idMask)
	dst[2] = int32(v >> (2 * idBits) & idMask)
}

// wordIDs are the ids of a word, at most 2*idsEach. The first idTriple has the number of all ids.
type wordIDs [2]idTriple

// wordKey is a word of 1..15 bytes: the bytes, zero padded, and in the top byte of hi the length. No word has length
// 0.
type wordKey struct{ lo, hi uint64 }

// noWord is a key that no entry has.
var noWord = wordKey{0, ^uint64(0)}

// entry is a word and its ids.
type entry struct {
	wordKey
	ids wordIDs
}

// cache has two possible entries per word, adjacent in one cache line of the processor, the newest first.
type cache [2 << cacheLog]entry

// shortEntry is a word of at most shortWord bytes and idsEach ids, as three words of four.
type shortEntry struct {
	key uint64 // the bytes, zero padded, and in the top byte the length
	ids idTriple
}

// shortCache has four possible entries per word, in one cache line of the processor, the newest first.
type shortCache [1 << shortCacheLog][4]shortEntry

// hotCache are the most recent brief words. They are few enough to remain in the processor's caches.
type hotCache [1 << hotLog]shortEntry

// index returns the index of the brief word with a key, if it is in the table.
func (t *hotCache) index(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> (64 - hotLog) }

// shortLine returns the line of the brief word with a key.
func shortLine(key uint64) uint64 { return key * 0x9E3779B97F4A7C15 >> (64 - shortCacheLog) }

var keyLo, keyHi = keyMasks()

func keyMasks() (lo, hi [16]uint64) {
	for n := range 16 {
		lo[n], hi[n] = ^uint64(0), 0
		if n < 8 {
			lo[n] = 1<<(8*n) - 1
		} else {
			hi[n] = 1<<(8*(n-8)) - 1
		}
	}
	return lo, hi
}

// packWord packs s[i:j], 1..15 bytes.
func packWord(s []byte, i, j int) wordKey {
	n := (j - i) & 15
	if i+16 > len(s) {
		var t [16]byte
		copy(t[:], s[i:j])
		return wordKey{binary.LittleEndian.Uint64(t[:]), binary.LittleEndian.Uint64(t[8:]) | uint64(n)<<56}
	}
	return wordKey{
		binary.LittleEndian.Uint64(s[i:]) & keyLo[n],
		binary.LittleEndian.Uint64(s[i+8:])&keyHi[n] | uint64(n)<<56,
	}
}

// mix folds the 128-bit product of two words.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD6E8FEB86659FD93)
	return hi ^ lo
}

func (k wordKey) hash() uint64 { return mix(k.lo, k.hi) }

// place returns the first of the two possible entries of the word.
func (k wordKey) place() uint32 { return uint32(k.hash()>>(64-cacheLog)) << 1 }

// isShort reports whether the word has a shortKey, as brief words have.
func (k wordKey) isShort() bool { return k.hi < (shortWord+1)<<56 }

func (k wordKey) shortKey() uint64 { return k.lo | k.hi }

// longKey converts a shortKey to a wordKey.
func longKey(short uint64) wordKey { return wordKey{short << 8 >> 8, short >> 56 << 56} }

// diff returns 0 if an entry is that of a word.
func (en *entry) diff(k wordKey) uint64 { return (en.lo ^ k.lo) | (en.hi ^ k.hi) }

// insert adds a word to the cache.
func (c *cache) insert(k wordKey, ids wordIDs) {
	p := k.place()
	if c[p].diff(k) == 0 {
		return
	}
	c[p|1] = c[p]
	c[p] = entry{k, ids}
}

// insert adds a word to the hot words.
func (t *hotCache) insert(b shortEntry) { t[t.index(b.key)] = b }

// insert adds a word to the brief words.
func (t *shortCache) insert(b shortEntry) {
	line := &t[shortLine(b.key)]
	if line[0].key != b.key {
		line[3], line[2], line[1], line[0] = line[2], line[1], line[0], b
	}
}

// hashLong returns the hash of a word of more than shortWord bytes.
func hashLong(word []byte) uint64 {
	h, n := uint64(0), len(word)
	for ; n > 32; n = len(word) {
		h = mix(h^load64(word, 0), load64(word, 8))
		word = word[16:]
	}
	second, third := middleOffsets(n)
	return mix(h^mix(load64(word, 0), load64(word, second))^uint64(n), mix(load64(word, third), load64(word, n-8)))
}

// middleOffsets returns the positions of the second and third eight bytes of a word of 8..32 bytes. Together with the
// first and the last eight they cover the word: the smaller of 8 and n-8, the larger of n-16 and 0. It does not
// branch, because the length of a word is unpredictable.
func middleOffsets(n int) (second, third int) {
	n -= 16
	below := n & (n >> 63)
	return 8 + below, n - below
}

// load64 returns the eight bytes of s from i on.
func load64(s []byte, i int) uint64 { return binary.LittleEndian.Uint64(s[i:]) }
