package tokenizer

import (
	"encoding/binary"
	"slices"
)

// lookup is where the words of a batch are cached. It is filled step by step, each of which reads memory for all words
// without a branch that depends on what is read, so that the processor waits for many places at once.
type lookup struct {
	key     [batch]wordKey
	place   [batch]uint32 // in the encoder's cache
	missing [batch]uint8  // the words that are not in there
	hash    [batch]uint64 // of those
	record  [batch]uint32 // place of theirs in the shared words, or 0
	touched uint64        // keeps the loads

	lane [batch]uint8 // of the words that are merged at once: 1 + which, or 0
	few  [lanes]fewSymbols
	list [lanes]*fewSymbols
}

const lanes = 32 // words that are merged at once

// find looks for the words of s that start at i and end at ends. It returns how many the encoder's cache lacks.
func (b *lookup) find(c *cache, s []byte, i int, ends []int32) (missing int) {
	b.pack(c, s, i, ends)
	key := b.key[:len(ends)]
	place := b.place[:len(ends)]
	for k, p := range place {
		p &= uint32(len(c) - 2)
		first := c[p].differs(key[k])
		second := c[p|1].differs(key[k])
		no := min(first, 1) // neither is a branch: which entry has a word, if any, is unpredictable
		place[k] = p | uint32(no)
		b.missing[missing&(batch-1)] = uint8(k)
		missing += int(no & min(second, 1))
	}
	return missing
}

// pack makes the keys of words, and touches their entries. A long word gets a key that no entry has.
func (b *lookup) pack(c *cache, s []byte, i int, ends []int32) {
	key := b.key[:len(ends)]
	place := b.place[:len(ends)]
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
		place[k] = wordKey{lo, hi}.place()
		i = j
	}
	var x uint64
	for _, p := range place {
		x |= c[p&uint32(len(c)-1)].lo
	}
	b.touched = x
}

// word is the k-th word of a batch.
func word(s []byte, i int, ends []int32, k int) []byte {
	if k > 0 {
		i = int(ends[k-1])
	}
	return s[i:ends[k]]
}

// findShared looks for the words that the encoder's cache lacks in the shared ones.
func (b *lookup) findShared(t *sharedWords, s []byte, i int, ends []int32, missing []uint8) {
	hash := b.hash[:len(missing)]
	record := b.record[:len(missing)]
	for j, k := range missing {
		if w := word(s, i, ends, int(k)); len(w) > keyMax {
			hash[j] = hashLong(w)
		} else {
			hash[j] = b.key[k].hash()
		}
	}
	var x uint64
	for _, h := range hash {
		x |= t.bucket(h)[0].Load()
	}
	for j, h := range hash {
		record[j] = t.place(h)
	}
	for _, p := range record {
		x |= uint64(t.record[p])
	}
	b.touched = x
}

// lookUp appends the ids of the words of s that start at i and end at ends. b is the scratch space of words, or of pieces,
// which are not cut further.
func (e *Encoder) lookUp(b *lookup, dst []int32, s []byte, i int, ends []int32) []int32 {
	n := b.find(e.cache, s, i, ends)
	missing := b.missing[:n]
	if n > 0 {
		b.findShared(e.shared, s, i, ends, missing)
		e.mergeNew(b, s, i, ends, missing)
	}
	dst = slices.Grow(dst, entryIDs*len(ends))
	k := 0
	for j, m := range missing {
		dst = e.cached(b, dst, k, int(m))
		w := word(s, i, ends, int(m))
		if len(w) > hugeWord && e.isCut(b, w) {
			dst = e.inPieces(dst, w)
			return e.lookUp(b, dst, s, int(ends[m]), ends[m+1:]) // what was found of these may have left the cache
		}
		o := len(dst)
		switch lane := b.lane[j]; {
		case b.record[j] != 0:
			dst = e.shared.appendIDs(dst, b.record[j])
		case lane != 0:
			dst = e.m.merges.appendFew(dst, &b.few[lane-1])
			e.shared.insert(b.hash[j], w, dst[o:])
		default:
			dst = e.encodeNew(b, dst, w, b.hash[j])
		}
		if len(w) <= keyMax && len(dst)-o <= entryIDs {
			e.remember(b.key[m], dst[o:])
		}
		k = int(m) + 1
		dst = slices.Grow(dst, entryIDs*(len(ends)-k))
	}
	return e.cached(b, dst, k, len(ends))
}

// mergeNew merges the words that nobody knows, as many as there are lanes, if they are short.
func (e *Encoder) mergeNew(b *lookup, s []byte, i int, ends []int32, missing []uint8) {
	n := 0
	for j, k := range missing {
		w := word(s, i, ends, int(k))
		b.lane[j] = 0
		if b.record[j] != 0 {
			if e.shared.has(b.record[j], w) {
				continue
			}
			b.record[j] = 0
		}
		if n == lanes || len(w) > shortMax || e.m.merges.characters != nil || e.isCut(b, w) {
			continue
		}
		if _, ok := e.m.whole[string(w)]; ok {
			continue
		}
		b.list[n] = &b.few[n]
		e.m.merges.beginBytes(b.list[n], w)
		n++
		b.lane[j] = uint8(n)
	}
	if n > 0 {
		e.m.merges.joinFew(&e.scratch, b.list[:n])
	}
}

// cached appends the ids of words from to to, which the encoder's cache has. dst has room for them.
func (e *Encoder) cached(b *lookup, dst []int32, from, to int) []int32 {
	o := len(dst)
	buf := dst[:cap(dst)]
	for _, p := range b.place[from:to] {
		en := &e.cache[p&uint32(len(e.cache)-1)]
		*(*[entryIDs]int32)(buf[o:]) = en.ids
		o += int(en.hi >> countBit & 7)
	}
	return buf[:o]
}

// remember has a word put into the cache once the batch is done: until then the places of its words must not change.
func (e *Encoder) remember(k wordKey, ids []int32) {
	if e.news < len(e.fresh) {
		en := &e.fresh[e.news]
		en.wordKey = k
		en.hi |= uint64(len(ids)) << countBit
		copy(en.ids[:], ids)
		e.news++
	}
}

// settle puts the words of the last batch into the cache.
func (e *Encoder) settle() {
	for i := range e.fresh[:e.news] {
		en := &e.fresh[i]
		n := en.hi >> countBit & 7
		e.cache.insert(wordKey{en.lo, en.hi &^ countMask}, en.ids[:n])
	}
	e.news = 0
}

// encodeNew encodes a word that nobody knows.
func (e *Encoder) encodeNew(b *lookup, dst []int32, w []byte, hash uint64) []int32 {
	o := len(dst)
	if id, ok := e.m.whole[string(w)]; ok {
		dst = append(dst, id)
	} else if e.isCut(b, w) {
		return e.inPieces(dst, w)
	} else {
		dst = e.m.merges.encode(&e.scratch, dst, w)
	}
	e.shared.insert(hash, w, dst[o:])
	return dst
}

// cutMin is the longest word that is not cut into pieces that merge on their own: they come again more often than it.
const cutMin = 31

// isCut tells whether a word is encoded in pieces. Where some words are one token whatever merging gives, a piece might be
// taken for one of them.
func (e *Encoder) isCut(b *lookup, w []byte) bool {
	return len(w) > cutMin && b == &e.ofWords && len(e.m.whole) == 0
}

// hugeWord is the longest word whose pieces wait until they are put into the cache, as short words do. There is room for few
// that wait.
const hugeWord = 1024

// inPieces encodes a long word.
func (e *Encoder) inPieces(dst []int32, w []byte) []int32 {
	for i := 0; i < len(w); {
		n := e.cut(w, i)
		dst = e.lookUp(&e.ofPieces, dst, w, i, e.cuts[:n])
		if len(w) > hugeWord {
			e.settle()
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
