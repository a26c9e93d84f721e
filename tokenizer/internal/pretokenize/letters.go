package pretokenize

import (
	"math/bits"
	"sync"

	"loaderd/tokenizer/internal/ucd"
)

// letterKinds tells how a rule takes characters beyond ASCII, so that they can be among the masks of a block with all of
// their bytes. They stand for letters of one case, or for marks; some leave it to the automatons.
type letterKinds struct {
	kind  [1 << 17]letterKind // of the characters of at most three bytes; those above are unclear
	cased bool
}

type letterKind uint8

const (
	aLower letterKind = 1 << iota
	anUpper
	anyCased  // a letter that goes with both cases; it is aLower too
	combining // of those the ones that are not letters to marks behind which they are
	unclear   // what the rule does not tell
)

// plainLetters are those of patterns that know \p{L} alone.
var plainLetters = sync.OnceValue(func() *letterKinds {
	return newLetterKinds(func(c ucd.Class) letterKind {
		if c&ucd.IsLetter != 0 {
			return aLower
		}
		return 0
	})
})

// lettersAndMarks are those of patterns in which \p{M} is the same as \p{L}.
var lettersAndMarks = sync.OnceValue(func() *letterKinds {
	return newLetterKinds(func(c ucd.Class) letterKind {
		if c&(ucd.IsLetter|ucd.IsMark) != 0 {
			return aLower
		}
		return 0
	})
})

// casedLetters are those of o200k's words.
var casedLetters = sync.OnceValue(func() *letterKinds { return newLetterKinds(casedLetter) })

// casedNotHan leaves ideographs, which are words of their own, to the automatons.
var casedNotHan = sync.OnceValue(func() *letterKinds {
	return newLetterKinds(func(c ucd.Class) letterKind {
		if c&ucd.IsHan != 0 {
			return unclear
		}
		return casedLetter(c)
	})
})

func casedLetter(c ucd.Class) letterKind {
	switch {
	case c&ucd.IsMark != 0:
		return aLower | anyCased | combining
	case c&ucd.IsUpper != 0 && c&ucd.IsLower != 0:
		return aLower | anyCased
	case c&ucd.IsUpper != 0:
		return anUpper
	case c&ucd.IsLower != 0:
		return aLower
	}
	return 0
}

func newLetterKinds(of func(c ucd.Class) letterKind) *letterKinds {
	t := &letterKinds{}
	for r := range t.kind {
		if r >= 1<<16 {
			t.kind[r] = unclear
			continue
		}
		c := ucd.ClassOf(rune(r))
		t.kind[r] = of(c)
		if c&(ucd.IsNumber|ucd.IsDigit|ucd.IsSpace) != 0 {
			t.kind[r] = unclear
		}
		t.cased = t.cased || t.kind[r]&anUpper != 0
	}
	return t
}

// characterAt is the character that begins at p[k]; of four bytes it is a number above those of three, of one its lower bits. Which sizes characters
// have is unpredictable, so it does not branch on them.
func characterAt(p *[blockSize]byte, k int) uint32 {
	b, c, d := uint32(p[k&(blockSize-1)]), uint32(p[(k+1)&(blockSize-1)]), uint32(p[(k+2)&(blockSize-1)])
	three := b&0x1f<<12 | c&0x3f<<6 | d&0x3f
	return three >> (bitsBehind >> (b >> 2 & 0x3c) & 15)
}

// bitsBehind has for the upper half of a first byte, four bits each, how many bits of three bytes are not the character's.
const bitsBehind = uint64(0x0066CCCCCCCCCCCC)

// sort puts the characters of a block that are not ASCII into its masks, and those of control characters, up to a size, where the text ends.
// It returns the place up to which they are there.
func (t *letterKinds) sort(m *masks, p *[blockSize]byte, size int) (limit uint) {
	limit = min(wholeCharacters(p), uint(size))
	first := m.wide &^ m.inside & (^uint64(0) >> (blockSize - limit))
	if t.cased {
		return min(limit, t.sortCased(m, p, first))
	}
	var lower uint64
	for ; first != 0; first &= first - 1 {
		k := bits.TrailingZeros64(first)
		kind := t.kind[characterAt(p, k)&(1<<17-1)]
		if kind > aLower {
			limit = uint(k)
			break
		}
		lower |= uint64(kind) << k
	}
	m.lower |= m.whole(lower)
	return limit
}

// whole are all bytes of the characters, of at most three, that begin at some places.
func (m *masks) whole(first uint64) uint64 {
	second := first << 1 & m.inside
	return first | second | second<<1&m.inside
}

// sortCased is sort for letters of two cases.
func (t *letterKinds) sortCased(m *masks, p *[blockSize]byte, first uint64) (limit uint) {
	var lower, upper, both, combined uint64
	limit = blockSize
	for ; first != 0; first &= first - 1 {
		k := bits.TrailingZeros64(first)
		kind := t.kind[characterAt(p, k)&(1<<17-1)]
		if kind == unclear {
			limit = uint(k)
			break
		}
		lower |= uint64(kind&1) << k
		upper |= uint64(kind>>1&1) << k
		both |= uint64(kind>>2&1) << k
		combined |= uint64(kind>>3&1) << k
	}
	m.lower |= m.whole(lower)
	m.upper |= m.whole(upper)
	// Which word a letter of both cases goes with depends on what is before it where an upper-case one is behind it; and a
	// combining character behind marks goes with these, but not behind a single one with a letter behind it.
	open := m.upper&(m.whole(both)<<1) | combined&(m.marks()<<1)
	return min(limit, uint(bits.TrailingZeros64(open)))
}

// wholeCharacters is the size of a block without the character that goes on behind it, if there is one.
func wholeCharacters(p *[blockSize]byte) uint {
	switch {
	case p[blockSize-1] >= 0xC0:
		return blockSize - 1
	case p[blockSize-2] >= 0xE0:
		return blockSize - 2
	}
	return blockSize
}
