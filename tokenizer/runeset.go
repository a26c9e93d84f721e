package tokenizer

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// runeRange is the characters from lo to hi, both included.
type runeRange struct{ lo, hi rune }

// runeSet is a set of characters: ranges in order, none next to another.
type runeSet []runeRange

// newRuneSet takes ranges in any order.
func newRuneSet(ranges ...runeRange) runeSet {
	slices.SortFunc(ranges, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	s := make(runeSet, 0, len(ranges))
	for _, r := range ranges {
		if n := len(s); n > 0 && r.lo <= s[n-1].hi+1 {
			s[n-1].hi = max(s[n-1].hi, r.hi)
		} else {
			s = append(s, r)
		}
	}
	return s
}

func (s runeSet) union(t runeSet) runeSet { return newRuneSet(slices.Concat(s, t)...) }

func (s runeSet) complement() runeSet {
	var c runeSet
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			c = append(c, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= utf8.MaxRune {
		c = append(c, runeRange{next, utf8.MaxRune})
	}
	return c
}

func (s runeSet) intersect(t runeSet) runeSet {
	return s.complement().union(t.complement()).complement()
}

func (s runeSet) has(r rune) bool {
	k, found := slices.BinarySearchFunc(s, r, func(x runeRange, r rune) int { return cmp.Compare(x.lo, r) })
	return found || k > 0 && r <= s[k-1].hi
}

// withProperty is the set of the assigned characters whose property is as wanted.
func withProperty(want func(property) bool) runeSet {
	var ranges []runeRange
	for _, r := range propertyRanges {
		if want(r.property) {
			ranges = append(ranges, runeRange{r.lo, r.hi})
		}
	}
	return newRuneSet(ranges...)
}

// inCategory is \p{name}.
func inCategory(name string) runeSet {
	if name == "C" || name == "Cn" { // the unassigned have no range
		return withProperty(func(p property) bool { return !p.in(name) }).complement()
	}
	return withProperty(func(p property) bool { return p.in(name) })
}

func withFlag(flag property) runeSet {
	return withProperty(func(p property) bool { return p&flag != 0 })
}

// whiteSpace is \s.
func whiteSpace() runeSet {
	return inCategory("Z").union(newRuneSet(runeRange{'\t', '\r'}, runeRange{0x85, 0x85}))
}
