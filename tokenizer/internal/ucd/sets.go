package ucd

import (
	"cmp"
	"slices"
	"sort"
	"unicode/utf8"
)

// Range is the characters from Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

// Set is a set of characters: ranges in order, none adjacent to another.
type Set []Range

// SetOf returns the set of some characters.
func SetOf(characters ...rune) Set {
	ranges := make([]Range, len(characters))
	for i, r := range characters {
		ranges[i] = Range{r, r}
	}
	return newSet(ranges...)
}

// SetOfRange returns the set of the characters from lo to hi, both included; lo must not be above hi.
func SetOfRange(lo, hi rune) Set { return Set{{lo, hi}} }

// newSet returns the set of ranges in any order.
func newSet(ranges ...Range) Set {
	sort.Slice(ranges, func(i, j int) bool { return ranges[i].Lo < ranges[j].Lo })
	s := make(Set, 0, len(ranges))
	for _, r := range ranges {
		if n := len(s); n > 0 && r.Lo <= s[n-1].Hi+1 {
			s[n-1].Hi = max(s[n-1].Hi, r.Hi)
		} else {
			s = append(s, r)
		}
	}
	return s
}

// Union returns the set of the characters that are in s or t.
func (s Set) Union(t Set) Set { return newSet(slices.Concat(s, t)...) }

// Complement returns the set of the characters that are not in s.
func (s Set) Complement() Set {
	var c Set
	next := rune(0)
	for _, r := range s {
		if r.Lo > next {
			c = append(c, Range{next, r.Lo - 1})
		}
		next = r.Hi + 1
	}
	if next <= utf8.MaxRune {
		c = append(c, Range{next, utf8.MaxRune})
	}
	return c
}

// Intersect returns the set of the characters that are in s and t.
func (s Set) Intersect(t Set) Set {
	return s.Complement().Union(t.Complement()).Complement()
}

// Has reports whether a character is in s.
func (s Set) Has(r rune) bool {
	k, found := slices.BinarySearchFunc(s, r, func(x Range, r rune) int { return cmp.Compare(x.Lo, r) })
	return found || k > 0 && r <= s[k-1].Hi
}

// withProperty returns the set of the assigned characters for whose property want returns true.
func withProperty(want func(property) bool) Set {
	var ranges []Range
	for _, r := range propertyRanges {
		if want(r.property) {
			ranges = append(ranges, Range{r.lo, r.hi})
		}
	}
	return newSet(ranges...)
}

// InCategory returns \p{name}.
func InCategory(name string) Set {
	if name == "C" || name == "Cn" { // the unassigned characters are in no range
		return withProperty(func(p property) bool { return !p.isInCategory(name) }).Complement()
	}
	return withProperty(func(p property) bool { return p.isInCategory(name) })
}

func withFlag(flag property) Set {
	return withProperty(func(p property) bool { return p&flag != 0 })
}

// WordCharacters returns \w.
func WordCharacters() Set { return withFlag(wordFlag) }

// RustWordCharacters returns \w of the regular expressions of Rust, which the reference uses for single_word and the
// Whitespace pre-tokenizer. It differs from \w of the split patterns: no superscript digits and fractions, but joiners.
func RustWordCharacters() Set {
	others := SetOf('²', '³', '¹', '¼', '½', '¾')
	joiners := SetOf(0x200c, 0x200d)
	return WordCharacters().Intersect(others.Complement()).Union(joiners)
}

// Han returns \p{Han}.
func Han() Set { return withFlag(hanFlag) }

// Digits returns what the Digits pre-tokenizer splits off.
func Digits() Set { return withFlag(digitFlag) }

// Punctuation returns what the Punctuation pre-tokenizer splits off.
func Punctuation() Set { return withFlag(punctFlag) }

// WhiteSpace returns \s.
func WhiteSpace() Set {
	return InCategory("Z").Union(SetOfRange('\t', '\r')).Union(SetOf(0x85))
}
