package tokenizer

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// Encoder holds the scratch space and the caches of one goroutine: about 10 MB, plus what the longest recent word or
// text needed, up to some MB.
type Encoder struct {
	m       *Model
	short   []line
	long    []longEntry
	scratch longScratch
	valid   []byte // a text whose invalid UTF-8 is replaced
	norm    normalizer
	plain   []byte // a text that has its space put before it
	found   wordBatch
	key     [batch]wordKey
	slot    [batch]uint32
	touched uint64
}

// keepBytes is the largest text buffer that is kept from text to text.
const keepBytes = 1 << 22

// NewEncoder makes an encoder for one goroutine.
func (m *Model) NewEncoder() *Encoder {
	e := &Encoder{m: m, short: make([]line, 1<<shortLog), long: make([]longEntry, 1<<longLog)}
	for _, s := range slices.Backward(m.seeds) { // small ids are mostly the frequent words: they go in last
		k := packWord([]byte(s.word), 0, len(s.word))
		e.short[k.slot()].insert(k, []int32{s.id})
	}
	return e
}

// Encode appends the ids of a text to dst. Any bytes will do: of invalid UTF-8 each maximal subpart counts as one
// U+FFFD, as in Python's bytes.decode(errors="replace"). It allocates nothing once dst and the scratch have grown.
func (e *Encoder) Encode(dst []int32, text []byte) []int32 {
	if !utf8.Valid(text) {
		e.valid = appendValid(keep(e.valid), text)
		text = e.valid
	}
	for i := 0; i < len(text); {
		start, end, id := e.m.raw.find(text, i)
		dst = e.between(dst, text[i:start])
		if end > start {
			dst = append(dst, id)
		}
		i = end
	}
	return dst
}

func keep(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}

// between encodes what lies between the added tokens that are looked for in the text as it is.
func (e *Encoder) between(dst []int32, s []byte) []int32 {
	if e.m.def.nfc {
		s = e.norm.nfc(s)
	}
	for i := 0; i < len(s); {
		start, end, id := e.m.normalized.find(s, i)
		if start > i {
			dst = e.words(dst, s[i:start])
		}
		if end > start {
			dst = append(dst, id)
		}
		i = end
	}
	return dst
}

// words encodes text without added tokens.
func (e *Encoder) words(dst []int32, s []byte) []int32 {
	if e.m.def.prefixSpace && s[0] != ' ' {
		e.plain = append(append(keep(e.plain), ' '), s...)
		s = e.plain
	}
	for i := 0; i < len(s); {
		n, end := e.m.split.split(s, i, &e.found)
		e.lookup(s, i, n)
		dst = e.emit(dst, s, i, n)
		i = end
	}
	return dst
}

// lookup packs the n words of s that start at i and end at e.found, and touches their cache lines, without a branch
// that depends on the text, so that cache misses overlap. A long word gets a key that no entry has.
func (e *Encoder) lookup(s []byte, i, n int) {
	ends := e.found.ends[:n]
	key := e.key[:len(ends)]
	slot := e.slot[:len(ends)]
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
	short := e.short
	var x uint64
	for _, h := range slot {
		x |= short[h][0].lo
	}
	e.touched = x // keeps the loads
}

// emit appends the ids of the n words that lookup has packed.
func (e *Encoder) emit(dst []int32, s []byte, i, n int) []int32 {
	short := e.short
	ends := e.found.ends[:n]
	key := e.key[:len(ends)]
	slot := e.slot[:len(ends)]
	dst = slices.Grow(dst, 4*n)
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
		dst = e.word(buf[:o], s[i:end])
		dst = slices.Grow(dst, 4*(n-k))
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
	start := 0
	if len(w) > keyMax && len(e.m.whole) == 0 { // else a piece might be taken for a whole word
		for p := 1; p < len(w); p++ {
			if w[p] >= 0xC0 && !e.m.cross.has(w, p) {
				dst = e.piece(dst, w[start:p])
				start = p
			}
		}
	}
	return e.piece(dst, w[start:])
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
	dst = e.m.merges.encode(&e.scratch, dst, w)
	l.insert(k, dst[o:])
	return dst
}

func (e *Encoder) longPiece(dst []int32, w []byte) []int32 {
	if len(w) > longMax {
		return e.m.merges.encode(&e.scratch, dst, w)
	}
	h := hashLong(w)
	le := &e.long[h&(1<<longLog-1)]
	if le.hash == h && string(le.key[:le.klen]) == string(w) {
		return append(dst, le.ids[:le.n]...)
	}
	o := len(dst)
	dst = e.m.merges.encode(&e.scratch, dst, w)
	if ids := dst[o:]; len(ids) <= longIDs {
		le.hash, le.klen, le.n = h, uint8(copy(le.key[:], w)), uint8(copy(le.ids[:], ids))
	}
	return dst
}
