// Package lookup finds the ids of the words of a text. Most words have been seen before: an encoder looks them up in caches of its own,
// batch by batch, then in what all encoders of a model share, and has merged what nobody knows.
package lookup

import (
	"encoding/binary"
	"slices"

	"loaderd/tokenizer/internal/merge"
	"loaderd/tokenizer/internal/pretokenize"
)

// lookup is where the words of a batch are looked up. It is filled step by step, each of which reads memory for all words
// without a branch that depends on what is read, so that the processor waits for many places at once.
type lookup struct {
	ids      [pretokenize.BatchSize]wordIDs // of the words that are found; for those of more ids manyIDs
	short    [pretokenize.BatchSize]uint16  // the words of up to shortWord bytes that are not found yet
	shortKey [pretokenize.BatchSize]uint64  // of those
	missing  [pretokenize.BatchSize]uint16  // the other words that are not found yet, later those that no cache of the encoder has
	key      [pretokenize.BatchSize]wordKey // of those, as all that follows
	place    [pretokenize.BatchSize]uint32  // in the encoder's cache
	hash     [pretokenize.BatchSize]uint64
	record   [pretokenize.BatchSize]uint32 // place in the shared words, or 0: a new word
	touched  uint64                        // keeps the loads

	many []int32 // ids of words that have too many of them for ids
	few  [merge.Lanes]merge.Few
	lane [merge.Lanes]uint16 // the missing word in few
}

// find looks for the words of s that start at i and end at ends in what an encoder knows. It returns how many are missing.
func (b *lookup) find(e *Encoder, s []byte, i int, ends []int32) (missing int) {
	short, long := b.tellApart(b.findHot(e.hot, s, i, ends))
	b.pack(s, i, ends, b.missing[:long])
	missing = b.findBrief(e.brief, e.hot, b.short[:short], long)
	return b.findCached(e.cache, b.missing[:missing])
}

// findHot looks for words among the hot ones. It returns how many are missing.
func (b *lookup) findHot(t *hotWords, s []byte, i int, ends []int32) (missing int) {
	near := len(ends) // the words from here on begin too near the end of s to read eight bytes at once
	for near > 1 && int(ends[near-2])+8 > len(s) {
		near--
	}
	if near == 1 && i+8 > len(s) {
		near = 0
	}
	for k, end := range ends[:near] {
		n := shortSize(int(end) - i)
		key := binary.LittleEndian.Uint64(s[i:i+8])&keyLo[n&15] | uint64(n)<<56
		missing = b.tryHot(t, k, key, missing)
		i = int(end)
	}
	for k := near; k < len(ends); k++ {
		n := shortSize(int(ends[k]) - i)
		missing = b.tryHot(t, k, packWord(s, i, i+n).lo|uint64(n)<<56, missing)
		i = int(ends[k])
	}
	return missing
}

// shortSize is the smaller of n and shortWord+1; as it is unpredictable which one that is, it does not branch.
func shortSize(n int) int {
	n -= shortWord + 1
	return shortWord + 1 + n&(n>>63)
}

// tryHot looks for the k-th word, the key of which is that of no hot word if it is not a short one.
func (b *lookup) tryHot(t *hotWords, k int, key uint64, missing int) int {
	p := &t[t.place(key)]
	b.ids[k&(pretokenize.BatchSize-1)][0] = p.ids
	b.short[missing&(pretokenize.BatchSize-1)] = uint16(k)
	b.shortKey[missing&(pretokenize.BatchSize-1)] = key
	return missing + int(min(p.key^key, 1)) // not a branch: whether it is a hot one is unpredictable
}

// tellApart moves the longer ones of the first n of short into missing. It returns how many are left, and how many are moved.
func (b *lookup) tellApart(n int) (short, long int) {
	for j, k := range b.short[:n] {
		key := b.shortKey[j]
		b.missing[long&(pretokenize.BatchSize-1)] = k
		b.short[short&(pretokenize.BatchSize-1)] = k
		b.shortKey[short&(pretokenize.BatchSize-1)] = key
		isLong := int(key >> 59 & 1)
		long += isLong
		short += 1 - isLong
	}
	return short, long
}

// findBrief looks for short words. Those that are missing get behind the first n of missing words; it returns how many
// these are together.
func (b *lookup) findBrief(t *briefWords, hot *hotWords, short []uint16, n int) (missing int) {
	keys := b.shortKey[:len(short)]
	var x uint64
	for _, key := range keys {
		x |= t[briefPlace(key)][0].key
	}
	b.touched = x
	for j, key := range keys {
		line := &t[briefPlace(key)]
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
		b.ids[short[j]][0] = en.ids
		if en.key != key {
			b.missing[n&(pretokenize.BatchSize-1)] = short[j]
			b.key[n&(pretokenize.BatchSize-1)] = longKey(key)
			n++
			continue
		}
		hot.insert(*en)
	}
	return n
}

// pack makes the keys of words. A long word has noWord for a key.
func (b *lookup) pack(s []byte, i int, ends []int32, words []uint16) {
	key := b.key[:len(words)]
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

// findCached looks for missing words in the cache. It returns how many are missing still.
func (b *lookup) findCached(c *cache, missing []uint16) (still int) {
	place := b.place[:len(missing)]
	var x uint64
	for j := range place {
		p := b.key[j].place()
		place[j] = p
		x |= c[p&uint32(len(c)-1)].lo
	}
	b.touched = x
	for j, k := range missing {
		p := place[j] & uint32(len(c)-2)
		key := b.key[j]
		first := c[p].differs(key)
		second := c[p|1].differs(key)
		no := min(first, 1) // neither is a branch: which entry has a word, if any, is unpredictable
		b.ids[k] = c[p|uint32(no)].ids
		b.missing[still&(pretokenize.BatchSize-1)] = k
		b.key[still&(pretokenize.BatchSize-1)] = key
		still += int(no & min(second, 1))
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

// findShared looks for the words that the encoder's cache lacks in the shared ones. It returns how many are not there.
func (b *lookup) findShared(t *sharedWords, s []byte, i int, ends []int32, missing []uint16) (fresh int) {
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
		fresh += int(1 - min(record[j], 1))
	}
	for _, p := range record {
		x |= uint64(t.record[p])
	}
	b.touched = x
	return fresh
}

// lookUp appends the ids of the words of s that start at i and end at ends.
func (e *Encoder) lookUp(dst []int32, s []byte, i int, ends []int32) []int32 {
	b := &e.lookup
	if n := b.find(e, s, i, ends); n > 0 {
		missing := b.missing[:n]
		b.many = b.many[:0]
		fresh := b.findShared(e.shared, s, i, ends, missing)
		e.mergeNew(s, i, ends, missing, fresh)
	}
	return b.appendFound(slices.Grow(dst, 2*idsEach*len(ends)), len(ends))
}

// mergeNew finds the ids of missing words in the shared ones, and encodes the words that nobody knows.
func (e *Encoder) mergeNew(s []byte, i int, ends []int32, missing []uint16, fresh int) {
	b := &e.lookup
	single := e.words.merges.BeginsWith() != nil && fresh < merge.Lanes/2 // too few for merging many at once to pay
	n := 0
	for j, k := range missing {
		w := word(s, i, ends, int(k))
		from := len(b.many)
		if p := b.record[j]; p != 0 && e.shared.has(p, w) {
			b.many = e.shared.appendIDs(b.many, p)
			e.learn(j, int(k), from)
			continue
		}
		id, whole := e.words.whole[string(w)]
		switch {
		case whole:
			b.many = append(b.many, id)
		case single || !e.words.merges.BeginFew(&e.scratch, &b.few[n], w):
			b.many = e.words.merges.Encode(&e.scratch, b.many, w)
		default:
			b.lane[n] = uint16(j)
			if n++; n == merge.Lanes {
				e.mergeFew(s, i, ends, missing, n)
				n = 0
			}
			continue
		}
		e.shared.insert(b.hash[j], w, b.many[from:])
		e.learn(j, int(k), from)
	}
	e.mergeFew(s, i, ends, missing, n)
}

// mergeFew merges the first n of the few.
func (e *Encoder) mergeFew(s []byte, i int, ends []int32, missing []uint16, n int) {
	b := &e.lookup
	e.words.merges.JoinFew(&e.scratch.Join, b.few[:n])
	for l, j := range b.lane[:n] {
		from, k := len(b.many), int(missing[j])
		b.many = e.words.merges.AppendFew(b.many, &b.few[l])
		e.shared.insert(b.hash[j], word(s, i, ends, k), b.many[from:])
		e.learn(int(j), k, from)
	}
}

// learn takes what many has from from on for the ids of the j-th missing word, the k-th of the batch.
func (e *Encoder) learn(j, k, from int) {
	b := &e.lookup
	ids, ok := packIDs(b.many[from:])
	if !ok {
		b.ids[k] = manyIDs(from, len(b.many))
		return
	}
	b.many = b.many[:from]
	b.ids[k] = ids
	if b.key[j] != noWord {
		e.remember(b.key[j], ids)
	}
}

// manyIDs stands for the ids of a word that are in many.
func manyIDs(from, to int) wordIDs {
	return wordIDs{someIDs(many) << (idsEach * idBits), someIDs(from)<<32 | someIDs(to)}
}

// many is for a count more than there can be.
const many = 2*idsEach + 1

// appendFound appends the ids of the first n words, which are found. dst has room for those that are not in many.
func (b *lookup) appendFound(dst []int32, n int) []int32 {
	o := len(dst)
	buf := dst[:cap(dst)]
	for k := range b.ids[:n] {
		v := &b.ids[k]
		v[0].put((*[idsEach]int32)(buf[o:]))
		count := v[0].count()
		if count > idsEach {
			if count == many {
				ids := b.many[v[1]>>32 : v[1]&(1<<32-1)]
				dst = slices.Grow(append(buf[:o], ids...), 2*idsEach*(n-k))
				o += len(ids)
				buf = dst[:cap(dst)]
				continue
			}
			v[1].put((*[idsEach]int32)(buf[o+idsEach:]))
		}
		o += count
	}
	return buf[:o]
}
