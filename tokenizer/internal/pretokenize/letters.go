package pretokenize

import (
	"math/bits"
	"sync"

	"loaderd/tokenizer/internal/ucd"
)

// letterKinds tells how a rule takes characters beyond ASCII, so that they can be among the masks of a block with all of
// their bytes. They stand for letters of one case, or for marks; some leave it to the automatons.
type letterKinds struct {
	// By the lower six bits of three bytes. Those of two bytes are there with any third one, so how many bytes characters have, which is
	// unpredictable, makes no difference; those of four bytes are unclear.
	kind  [1 << 18]letterKind
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
	for r := rune(0x80); r < 1<<16; r++ {
		c := ucd.ClassOf(r)
		kind := of(c)
		if c&(ucd.IsNumber|ucd.IsDigit|ucd.IsSpace) != 0 {
			kind = unclear
		}
		t.cased = t.cased || kind&anUpper != 0
		if r >= 0x800 {
			t.kind[0x20<<12|r] = kind
			continue
		}
		for third := range rune(64) {
			t.kind[r<<6|third] = kind
		}
	}
	for i := 0x30 << 12; i < len(t.kind); i++ {
		t.kind[i] = unclear
	}
	return t
}

// at is the kind of the character that begins at p[k].
func (t *letterKinds) at(p *[blockSize]byte, k int) letterKind {
	b, c, d := uint32(p[k&(blockSize-1)]), uint32(p[(k+1)&(blockSize-1)]), uint32(p[(k+2)&(blockSize-1)])
	return t.kind[b&0x3f<<12|c&0x3f<<6|d&0x3f]
}

// sort puts the characters of a block that are not ASCII, up to a size, where the text ends, into its masks. It returns the place up to which they
// are there. Control characters are marks without it.
func (t *letterKinds) sort(m *masks, p *[blockSize]byte, size int) (limit uint) {
	limit = min(wholeCharacters(p), uint(size))
	first := m.first & (^uint64(0) >> (blockSize - limit))
	if t.cased {
		return min(limit, t.sortCased(m, p, first))
	}
	var lower uint64
	for ; first != 0; first &= first - 1 {
		k := bits.TrailingZeros64(first)
		kind := t.at(p, k)
		if kind > aLower {
			limit = uint(k)
			break
		}
		lower |= first & -first & -uint64(kind)
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
		kind := t.at(p, k)
		if kind == unclear {
			limit = uint(k)
			break
		}
		lead := first & -first
		lower |= lead & -uint64(kind&1)
		upper |= lead & -uint64(kind>>1&1)
		both |= lead & -uint64(kind>>2&1)
		combined |= lead & -uint64(kind>>3&1)
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
