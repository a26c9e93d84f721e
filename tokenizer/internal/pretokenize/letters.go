package pretokenize

import (
	"math/bits"
	"sync"

	"loaderd/tokenizer/internal/ucd"
)

// letterKinds tells how a rule takes characters beyond ASCII, so that they can be among the masks of a block with all of
// their bytes. They stand for letters of one case, or for marks; some leave it to the automatons.
type letterKinds struct {
	kind  [1 << 16]letterKind // of the characters of at most three bytes; the others are unclear
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
		c := ucd.ClassOf(rune(r))
		t.kind[r] = of(c)
		if c&(ucd.IsNumber|ucd.IsDigit|ucd.IsSpace) != 0 {
			t.kind[r] = unclear
		}
		t.cased = t.cased || t.kind[r]&anUpper != 0
	}
	return t
}

// at is the kind of the character that begins at p[k], and its bytes in a mask in which lead is the first.
func (t *letterKinds) at(p *[blockSize]byte, k int, lead uint64) (kind letterKind, span uint64) {
	b := uint32(p[k&(blockSize-1)])
	r, span := b&0x1f<<6|uint32(p[(k+1)&(blockSize-1)])&0x3f, lead*3
	if b >= 0xE0 {
		r, span = r<<6|uint32(p[(k+2)&(blockSize-1)])&0x3f, lead*7
	}
	if b < 0xC0 || b >= 0xF0 { // a control character or what is behind the text; four bytes
		return unclear, span
	}
	return t.kind[r&0xffff], span
}

// sort puts the characters of a block that are not ASCII into its masks. It returns the place up to which they are there.
func (t *letterKinds) sort(m *masks, p *[blockSize]byte) (limit uint) {
	limit = wholeCharacters(p)
	wide := m.wide & (^uint64(0) >> (blockSize - limit))
	if t.cased {
		return min(limit, t.sortCased(m, p, wide))
	}
	var lower, first uint64
	for wide != 0 {
		k := bits.TrailingZeros64(wide)
		lead := wide & -wide
		kind, span := t.at(p, k, lead)
		if kind > aLower {
			limit = uint(k)
			break
		}
		first |= lead
		wide &^= span
		lower |= span & -uint64(kind)
	}
	m.lower |= lower
	m.inside = m.wide &^ first
	return limit
}

// sortCased is sort for letters of two cases.
func (t *letterKinds) sortCased(m *masks, p *[blockSize]byte, wide uint64) (limit uint) {
	var lower, upper, both, combined, first uint64
	limit = blockSize
	for wide != 0 {
		k := bits.TrailingZeros64(wide)
		lead := wide & -wide
		kind, span := t.at(p, k, lead)
		if kind == unclear {
			limit = uint(k)
			break
		}
		first |= lead
		wide &^= span
		lower |= span & -uint64(kind&1)
		upper |= span & -uint64(kind>>1&1)
		both |= span & -uint64(kind>>2&1)
		combined |= lead & -uint64(kind>>3&1)
	}
	m.lower |= lower
	m.upper |= upper
	m.inside = m.wide &^ first
	// Which word a letter of both cases goes with depends on what is before it where an upper-case one is behind it; and a
	// combining character behind marks goes with these, but not behind a single one with a letter behind it.
	open := m.upper&(both<<1) | combined&(m.marks()<<1)
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
