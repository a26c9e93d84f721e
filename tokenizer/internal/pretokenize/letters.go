package pretokenize

import (
	"math/bits"
	"sync"

	"loaderd/tokenizer/internal/ucd"
)

// letterKinds defines how a rule treats characters beyond ASCII, so that they can be added to the masks of a block
// with all of their bytes. They count as letters of one case, or as marks. Some are left to the automatons.
type letterKinds struct {
	// Indexed by the lower six bits of three bytes. Characters of two bytes are entered with any third byte, so the
	// unpredictable number of bytes of a character makes no difference. Those of four bytes are unclear.
	kind  [1 << 18]letterKind
	cased bool
}

type letterKind uint8

const (
	lowerLetter letterKind = 1 << iota
	upperLetter
	bothCases // a letter that combines with both cases; it is lowerLetter too
	combining // an bothCases character that counts as a mark after marks
	unclear   // left to the automatons
)

// plainLetters are those of patterns that only use \p{L}.
var plainLetters = sync.OnceValue(func() *letterKinds {
	return newLetterKinds(func(c ucd.Class) letterKind {
		if c&ucd.IsLetter != 0 {
			return lowerLetter
		}
		return 0
	})
})

// lettersAndMarks are those of patterns in which \p{M} is equivalent to \p{L}.
var lettersAndMarks = sync.OnceValue(func() *letterKinds {
	return newLetterKinds(func(c ucd.Class) letterKind {
		if c&(ucd.IsLetter|ucd.IsMark) != 0 {
			return lowerLetter
		}
		return 0
	})
})

// casedLetters are those of o200k's words.
var casedLetters = sync.OnceValue(func() *letterKinds { return newLetterKinds(casedLetter) })

// casedNotHan leaves ideographs, which are separate words, to the automatons.
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
		return lowerLetter | bothCases | combining
	case c&ucd.IsUpper != 0 && c&ucd.IsLower != 0:
		return lowerLetter | bothCases
	case c&ucd.IsUpper != 0:
		return upperLetter
	case c&ucd.IsLower != 0:
		return lowerLetter
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
		t.cased = t.cased || kind&upperLetter != 0
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

// letterMasks have, for each kind but unclear, one bit per character of a block, at its first byte.
type letterMasks struct{ lower, upper, both, combined uint64 }

// maskRows are the masks to which a character of each kind belongs.
var maskRows = func() (rows [unclear]letterMasks) {
	for kind := range uint64(unclear) {
		rows[kind] = letterMasks{-(kind & 1), -(kind >> 1 & 1), -(kind >> 2 & 1), -(kind >> 3 & 1)}
	}
	return rows
}()

// sortPlain adds the characters of a block that start at the bits of first to masks, up to an unclear one. It returns
// the places from there on.
func (t *letterKinds) sortPlain(by *letterMasks, p *block, first uint64) (left uint64) {
	*by = letterMasks{}
	for ; first != 0; first &= first - 1 {
		k := bits.TrailingZeros64(first) & (blockSize - 1)
		kind := t.kind[uint32(p[k]&0x3f)<<12|uint32(p[k+1]&0x3f)<<6|uint32(p[k+2]&0x3f)]
		if kind == unclear {
			break
		}
		lead, row := first&-first, &maskRows[kind&(unclear-1)]
		by.lower |= lead & row.lower
		by.upper |= lead & row.upper
		by.both |= lead & row.both
		by.combined |= lead & row.combined
	}
	return first
}

// addLetters adds the characters of a block that are not ASCII to its masks, up to size, where the text ends. It
// returns the place up to which the masks are complete. Control characters are marks without it.
func (t *letterKinds) addLetters(m *masks, p *block, size int) (limit uint) {
	limit = min(wholeCharacters(p), uint(size))
	var by letterMasks
	left := t.classifyLetters(&by, p, m.first&(^uint64(0)>>(blockSize-limit)))
	limit = min(limit, uint(bits.TrailingZeros64(left)))
	m.lower |= m.wholeCharacters(by.lower)
	if !t.cased {
		return limit
	}
	m.upper |= m.wholeCharacters(by.upper)
	// The word of a letter of both cases depends on what precedes it if an upper-case one follows. A combining character
	// after marks belongs to these, but not after a single one that a letter follows.
	open := m.upper&(m.wholeCharacters(by.both)<<1) | by.combined&(m.marks()<<1)
	return min(limit, uint(bits.TrailingZeros64(open)))
}

// wholeCharacters returns all bytes of the characters, of at most three bytes, that start at the bits of first.
func (m *masks) wholeCharacters(first uint64) uint64 {
	second := first << 1 & m.inside
	return first | second | second<<1&m.inside
}

// wholeCharacters returns the size of a block without a last character that continues after it.
func wholeCharacters(p *block) uint {
	switch {
	case p[blockSize-1] >= 0xC0:
		return blockSize - 1
	case p[blockSize-2] >= 0xE0:
		return blockSize - 2
	}
	return blockSize
}
