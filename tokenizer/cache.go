package tokenizer

import (
	"encoding/binary"
	"math/bits"
)

// The caches of an Encoder: most words of a text have been seen before, and a word's ids depend on the word alone.
const (
	keyMax    = 15 // bytes of a word in the short cache
	longMax   = 31 // bytes of a word in the long cache
	longIDs   = 8  // ids of a word in the long cache
	shortLog  = 17 // short cache lines: 8 MiB
	longLog   = 16 // long cache entries: 4 MiB
	countBit  = 60
	countMask = uint64(7) << countBit
	longBit   = uint64(1) << 63

	longCountBit = 61
)

// wordKey is a word of 1..15 bytes: the bytes, zero padded, and in the top byte of hi the length (bits 0..3), in an
// entry also the number of ids (bits 4..6) and bit 7 where the ids are in the long cache. No word has length 0.
type wordKey struct{ lo, hi uint64 }

// entry is a word and its 1..4 ids.
type entry struct {
	wordKey
	ids [4]int32
}

// line is where a word may be cached: in one of two entries, the newest first.
type line [2]entry

// longKey is a word of 1..31 bytes as wordKey is one: in the top byte the length (bits 0..4). In an entry it has the number
// of ids, less 1, in bits 5..7.
type longKey [4]uint64

// longEntry is a longer word, or one with more ids: one line of the processor's caches.
type longEntry struct {
	key longKey
	ids [longIDs]int32
}

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

func (k wordKey) slot() uint32 { return uint32(mix(k.lo, k.hi) >> (64 - shortLog)) }

// packLong packs a word of 1..31 bytes.
func packLong(word []byte) (k longKey) {
	var t [32]byte
	t[longMax] = uint8(copy(t[:longMax], word))
	for i := range k {
		k[i] = binary.LittleEndian.Uint64(t[8*i:])
	}
	return k
}

func (k *longKey) slot() uint32 {
	return uint32(mix(mix(k[0], k[1])^k[2], k[3]) >> (64 - longLog))
}

// find returns a word's ids, or nil.
func (e *longEntry) find(k *longKey) []int32 {
	if x := e.key[3] ^ k[3]; (e.key[0]^k[0])|(e.key[1]^k[1])|(e.key[2]^k[2])|x&(1<<longCountBit-1) == 0 {
		return e.ids[:x>>longCountBit+1]
	}
	return nil
}

// insert puts a word with 1..longIDs ids into the entry.
func (e *longEntry) insert(k *longKey, ids []int32) {
	e.key = *k
	e.key[3] |= uint64(len(ids)-1) << longCountBit
	copy(e.ids[:], ids)
}

// insert puts a word into its line; ids that do not fit are left to the long cache.
func (l *line) insert(k wordKey, ids []int32) {
	l[1] = l[0]
	if len(ids) > len(l[0].ids) {
		l[0].lo, l[0].hi = k.lo, k.hi|longBit
		return
	}
	l[0].lo, l[0].hi = k.lo, k.hi|uint64(len(ids))<<countBit
	copy(l[0].ids[:], ids)
}

// find returns a word's ids, and whether they are in the long cache instead.
func (l *line) find(k wordKey) (ids []int32, long bool) {
	for i := range l {
		e := &l[i]
		if e.lo == k.lo && e.hi == k.hi|longBit {
			return nil, true
		}
		if e.lo == k.lo && (e.hi^k.hi)&^countMask == 0 {
			return e.ids[:e.hi>>countBit&7], false
		}
	}
	return nil, false
}
