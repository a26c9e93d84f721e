package tokenizer

import (
	"encoding/binary"
	"slices"
)

// wordKeys is where the words of a batch may be cached.
type wordKeys struct {
	key     [batch]wordKey
	slot    [batch]uint32
	touched uint64
}

// lookup finds where the n words of s are cached that start at i and end at e.found.
func (e *Encoder) lookup(s []byte, i, n int) { e.keys.find(e.short, s, i, e.found.ends[:n]) }

// find packs the words of s that start at i and end at ends, and touches their cache lines, without a branch that depends
// on the text, so that cache misses overlap. A long word gets a key that no entry has.
func (b *wordKeys) find(short []line, s []byte, i int, ends []int32) {
	key := b.key[:len(ends)]
	slot := b.slot[:len(ends)]
	for k, end := range ends {
		j := int(end)
		lo, hi := uint64(0), ^uint64(0)
		if l := uint(j - i); l <= keyMax {
			if i+16 <= len(s) {
				t := s[i : i+16]
				lo = binary.LittleEndian.Uint64(t) & keyLo[l]
				hi = binary.LittleEndian.Uint64(t[8:])&keyHi[l] | uint64(l)<<56
			} else {
				w := packWord(s, i, j)
				lo, hi = w.lo, w.hi
			}
		}
		key[k].lo, key[k].hi = lo, hi
		slot[k] = wordKey{lo, hi}.slot()
		i = j
	}
	var x uint64
	for _, h := range slot {
		x |= short[h][0].lo
	}
	b.touched = x // keeps the loads
}

// emit appends the ids of the n words that lookup has found places for.
func (e *Encoder) emit(dst []int32, s []byte, i, n int) []int32 {
	return e.emitFrom(&e.keys, dst, s, i, e.found.ends[:n])
}

// emitFrom appends the ids of the words of s that start at i and end at ends.
func (e *Encoder) emitFrom(b *wordKeys, dst []int32, s []byte, i int, ends []int32) []int32 {
	short := e.short
	key := b.key[:len(ends)]
	slot := b.slot[:len(ends)]
	dst = slices.Grow(dst, 4*len(ends))
	o := len(dst)
	buf := dst[:cap(dst)]
	for k, end := range ends {
		l := &short[slot[k]]
		lo, hi := key[k].lo, key[k].hi
		way := 0
		if (l[0].lo^lo)|(l[0].hi^hi)&^countMask != 0 {
			way = 1 // a conditional move: which entry holds a word is unpredictable
		}
		en := &l[way&1]
		x := en.hi ^ hi
		if (en.lo^lo)|x&^countMask == 0 {
			*(*[4]int32)(buf[o:]) = en.ids
			o += int(x >> countBit)
			i = int(end)
			continue
		}
		if w := s[i:end]; b == &e.keys {
			dst = e.word(buf[:o], w)
		} else {
			dst = e.piece(buf[:o], w)
		}
		dst = slices.Grow(dst, 4*(len(ends)-k))
		o = len(dst)
		buf = dst[:cap(dst)]
		i = int(end)
	}
	return buf[:o]
}

// word encodes a word that emit has not found.
func (e *Encoder) word(dst []int32, w []byte) []int32 {
	if id, ok := e.m.whole[string(w)]; ok {
		return append(dst, id)
	}
	if len(w) <= longMax || len(e.m.whole) > 0 { // a piece might be taken for a whole word
		return e.piece(dst, w)
	}
	for i := 0; i < len(w); {
		n := e.cut(w, i)
		if n == 1 {
			dst = e.piece(dst, w[i:e.cuts[0]])
		} else {
			e.cutKeys.find(e.short, w, i, e.cuts[:n])
			dst = e.emitFrom(&e.cutKeys, dst, w, i, e.cuts[:n])
		}
		i = int(e.cuts[n-1])
	}
	return dst
}

// cut finds the next pieces of a word, from i on, that merge on their own: their ends, in e.cuts. It returns their number.
func (e *Encoder) cut(w []byte, i int) (n int) {
	for p := i + 1; p < len(w) && n < batch-1; p++ {
		if w[p] >= 0xC0 && !e.m.cross.has(w, p) {
			e.cuts[n] = int32(p)
			n++
		}
	}
	if n < batch-1 {
		e.cuts[n] = int32(len(w))
		n++
	}
	return n
}

// piece encodes a part of a word that merges on its own.
func (e *Encoder) piece(dst []int32, w []byte) []int32 {
	if len(w) > keyMax {
		return e.longPiece(dst, w)
	}
	k := packWord(w, 0, len(w))
	l := &e.short[k.slot()]
	ids, long := l.find(k)
	if long {
		return e.longPiece(dst, w)
	}
	if ids != nil {
		return append(dst, ids...)
	}
	o := len(dst)
	whole := packLong(w)
	dst = e.merge(dst, w, &whole)
	l.insert(k, dst[o:])
	return dst
}

// merge encodes a piece of up to longMax bytes that is in no cache of the encoder.
func (e *Encoder) merge(dst []int32, w []byte, k *longKey) []int32 {
	if ids := e.shared.find(k); ids != nil {
		return append(dst, ids...)
	}
	o := len(dst)
	dst = e.m.merges.encode(&e.scratch, dst, w)
	if n := len(dst) - o; n > 0 && n <= longIDs {
		e.shared.insert(k, dst[o:])
	}
	return dst
}

// longPiece encodes a piece that does not fit the short cache.
func (e *Encoder) longPiece(dst []int32, w []byte) []int32 {
	if len(w) > longMax {
		return e.m.merges.encode(&e.scratch, dst, w)
	}
	k := packLong(w)
	entry := &e.long[k.slot()]
	if ids := entry.find(&k); ids != nil {
		return append(dst, ids...)
	}
	o := len(dst)
	dst = e.merge(dst, w, &k)
	if n := len(dst) - o; n > 0 && n <= longIDs {
		entry.insert(&k, dst[o:])
	}
	return dst
}
