package tokenizer

import (
	"encoding/binary"
	"math/bits"
)

// The cache of an Encoder: most words of a text have been seen before, and a word's ids depend on the word alone.
const (
	keyMax    = 15 // bytes of a word in the cache
	entryIDs  = 4  // ids of a word in the cache
	cacheLog  = 17 // lines: 8 MiB
	countBit  = 60
	countMask = uint64(7) << countBit
)

// wordKey is a word of 1..15 bytes: the bytes, zero padded, and in the top byte of hi the length (bits 0..3), in an
// entry also the number of ids (bits 4..6). No word has length 0.
type wordKey struct{ lo, hi uint64 }

// entry is a word and its 1..4 ids.
type entry struct {
	wordKey
	ids [entryIDs]int32
}

// cache has two entries where a word may be, side by side in one line of the processor's caches, the newest first.
type cache [2 << cacheLog]entry

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

// place is the first of the two entries where a word may be.
func (k wordKey) place() uint32 { return uint32(k.hash()>>(64-cacheLog)) << 1 }

// differs is 0 where an entry is that of a word.
func (en *entry) differs(k wordKey) uint64 { return en.lo ^ k.lo | (en.hi^k.hi)&^countMask }

// insert puts a word with at most entryIDs ids into the cache.
func (c *cache) insert(k wordKey, ids []int32) {
	p := k.place()
	if c[p].differs(k) == 0 {
		return
	}
	c[p|1] = c[p]
	c[p].lo, c[p].hi = k.lo, k.hi|uint64(len(ids))<<countBit
	copy(c[p].ids[:], ids)
}

// hashLong is the hash of a word of more than keyMax bytes.
func hashLong(word []byte) uint64 {
	h := uint64(len(word))
	for ; len(word) > 8; word = word[8:] {
		h = mix(h, binary.LittleEndian.Uint64(word))
	}
	var t [8]byte
	copy(t[:], word)
	return mix(h, binary.LittleEndian.Uint64(t[:]))
}
