package tokenizer

import (
	"encoding/binary"
	"slices"
)

// lookup is where the words of a batch are looked up. It is filled step by step, each of which reads memory for all words
// without a branch that depends on what is read, so that the processor waits for many places at once.
type lookup struct {
	ids     [batch]wordIDs // of the words that are found
	missing [batch]uint16  // the words that are not found yet
	key     [batch]wordKey // of those, as all that follows
	place   [batch]uint32  // in the encoder's cache
	hash    [batch]uint64
	record  [batch]uint32   // place in the shared words, or 0: a new word
	made    [batch][2]int32 // of a new word's ids in fresh: from, to
	touched uint64          // keeps the loads

	fresh []int32 // ids of new words
	few   [lanes]fewSymbols
	lane  [lanes]uint16 // the missing word in few
}

const (
	laneBits = 5
	lanes    = 1 << laneBits // words that are merged at once
)

// find looks for the words of s that start at i and end at ends in what an encoder knows. It returns how many are missing.
func (b *lookup) find(e *Encoder, s []byte, i int, ends []int32) (missing int) {
	if missing = b.findHot(e.hot, s, i, ends); missing > 0 {
		b.pack(e.cache, s, i, ends, b.missing[:missing])
		missing = b.findCached(e.cache, e.hot, b.missing[:missing])
	}
	return missing
}

// findHot looks for words among the hot ones.
func (b *lookup) findHot(t *hotWords, s []byte, i int, ends []int32) (missing int) {
	ids := b.ids[:len(ends)]
	for k, end := range ends {
		n := min(uint(int(end)-i), hotMax+1)
		var key uint64
		if i+8 <= len(s) {
			key = binary.LittleEndian.Uint64(s[i:i+8]) & keyLo[n&15]
		} else {
			key = packWord(s, i, i+int(n)).lo
		}
		key |= uint64(n) << 56 // of a longer word it is like that of no hot one
		p := &t[t.hot(key)]
		ids[k][0] = p.ids
		b.missing[missing&(batch-1)] = uint16(k)
		missing += int(min(p.key^key, 1)) // not a branch: whether it is a hot one is unpredictable
		i = int(end)
	}
	return missing
}

// pack makes the keys of missing words, and touches their entries. A long word has noWord for a key.
func (b *lookup) pack(c *cache, s []byte, i int, ends []int32, missing []uint16) {
	key := b.key[:len(missing)]
	place := b.place[:len(missing)]
	for j, k := range missing {
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
		place[j] = wordKey{lo, hi}.place()
	}
	var x uint64
	for _, p := range place {
		x |= c[p&uint32(len(c)-1)].lo
	}
	b.touched = x
}

// findCached looks for missing words in the cache. It returns how many are missing still.
func (b *lookup) findCached(c *cache, t *hotWords, missing []uint16) (still int) {
	place := b.place[:len(missing)]
	for j, k := range missing {
		p := place[j] & uint32(len(c)-2)
		key := b.key[j]
		first := c[p].differs(key)
		second := c[p|1].differs(key)
		no := min(first, 1) // neither is a branch: which entry has a word, if any, is unpredictable
		en := &c[p|uint32(no)]
		b.ids[k] = en.ids
		b.missing[still&(batch-1)] = k
		b.key[still&(batch-1)] = key
		if no&min(second, 1) != 0 {
			still++
			continue
		}
		t.insert(key, en.ids[0])
	}
	return still
}

// word is the k-th word of a batch.
func word(s []byte, i int, ends []int32, k int) []byte {
	if k > 0 {
		i = int(ends[k-1])
	}
	return s[i:ends[k]]
}

// findShared looks for the words that the encoder's cache lacks in the shared ones.
func (b *lookup) findShared(t *sharedWords, s []byte, i int, ends []int32, missing []uint16) {
	hash := b.hash[:len(missing)]
	record := b.record[:len(missing)]
	for j, k := range missing {
		if w := word(s, i, ends, int(k)); len(w) > keyMax {
			hash[j] = hashLong(w)
		} else {
			hash[j] = b.key[j].hash()
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

// lookUp appends the ids of the words of s that start at i and end at ends.
func (e *Encoder) lookUp(dst []int32, s []byte, i int, ends []int32) []int32 {
	b := &e.lookup
	missing := b.missing[:b.find(e, s, i, ends)]
	if len(missing) > 0 {
		b.findShared(e.shared, s, i, ends, missing)
		e.mergeNew(s, i, ends, missing)
	}
	dst = slices.Grow(dst, 2*idsEach*len(ends))
	k := 0
	for j, m := range missing {
		dst = b.found(dst, k, int(m))
		k = int(m) + 1
		o := len(dst)
		if b.record[j] != 0 {
			dst = e.shared.appendIDs(dst, b.record[j])
		} else {
			dst = append(dst, b.fresh[b.made[j][0]:b.made[j][1]]...)
		}
		if ids, ok := packIDs(dst[o:]); ok && b.key[j] != noWord {
			e.cache.insert(b.key[j], ids)
			e.hot.insert(b.key[j], ids[0])
		}
		dst = slices.Grow(dst, 2*idsEach*(len(ends)-k))
	}
	return b.found(dst, k, len(ends))
}

// mergeNew encodes the words that nobody knows.
func (e *Encoder) mergeNew(s []byte, i int, ends []int32, missing []uint16) {
	b := &e.lookup
	b.fresh = b.fresh[:0]
	n := 0
	for j, k := range missing {
		w := word(s, i, ends, int(k))
		if b.record[j] != 0 {
			if e.shared.has(b.record[j], w) {
				continue
			}
			b.record[j] = 0
		}
		id, whole := e.m.whole[string(w)]
		if whole || len(w) > shortMax || e.m.merges.characters != nil {
			from := len(b.fresh)
			if whole {
				b.fresh = append(b.fresh, id)
			} else {
				b.fresh = e.m.merges.encode(&e.scratch, b.fresh, w)
			}
			e.learn(j, w, from)
			continue
		}
		e.m.merges.beginBytes(&b.few[n], w)
		b.lane[n] = uint16(j)
		if n++; n == lanes {
			e.mergeFew(s, i, ends, missing, n)
			n = 0
		}
	}
	e.mergeFew(s, i, ends, missing, n)
}

// mergeFew merges the first n of the few.
func (e *Encoder) mergeFew(s []byte, i int, ends []int32, missing []uint16, n int) {
	b := &e.lookup
	e.m.merges.joinFew(&e.scratch.join, b.few[:n])
	for l, j := range b.lane[:n] {
		from := len(b.fresh)
		b.fresh = e.m.merges.appendFew(b.fresh, &b.few[l])
		e.learn(int(j), word(s, i, ends, int(missing[j])), from)
	}
}

// learn takes what is fresh, from from on, for the ids of the j-th missing word w.
func (e *Encoder) learn(j int, w []byte, from int) {
	b := &e.lookup
	b.made[j] = [2]int32{int32(from), int32(len(b.fresh))}
	e.shared.insert(b.hash[j], w, b.fresh[from:])
}

// found appends the ids of words from to to, which are found. dst has room for them.
func (b *lookup) found(dst []int32, from, to int) []int32 {
	o := len(dst)
	buf := dst[:cap(dst)]
	for k := range b.ids[from:to] {
		v := &b.ids[from+k]
		v[0].put((*[idsEach]int32)(buf[o:]))
		if v[0].count() > idsEach {
			v[1].put((*[idsEach]int32)(buf[o+idsEach:]))
		}
		o += v[0].count()
	}
	return buf[:o]
}
