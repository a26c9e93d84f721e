package pretokenize

import "math/bits"

// blockRule finds the word starts of a block by bit operations: x<<1 are the places after x, x>>1 the places before
// it. It agrees with the patterns of its family on ASCII without control characters.
type blockRule struct {
	joinsSpaces   bool // gpt2's words: a space belongs to any word after it, newlines are like other whitespace
	contractions  contractionMode
	splitsCases   bool // o200k's words: an upper-case letter after a lower-case one starts a word
	digitsFirst   bool // digits are split off first: for the rest of the text they are its end
	digits        int  // maximum number of digits of a word: 1 or 3
	joinsNewlines bool // newlines after a mark belong to its word
	joinsSlashes  bool // and slashes after those

	letters func() *letterKinds // beyond ASCII; nil: the rule supports only ASCII
}

// contractionMode defines how 's 't 're 've 'm 'll 'd are split.
type contractionMode uint8

const (
	noContractions        contractionMode = iota
	lowerCaseContractions                 // separate words, in lower case
	anyCaseContractions                   // separate words
	suffixContractions                    // the end of the word before them
)

// starts converts the masks of a block, which starts at s[i] and at a word start, to the mask of word starts. Callers
// must ignore bit 0, and bits at and above the first byte that is not ASCII.
func (r *blockRule) starts(m *masks, s []byte, i int) uint64 {
	if r.joinsSpaces {
		return r.startsSpaced(m, s, i)
	}
	l := m.letters()
	var own uint64
	switch {
	case r.joinsSlashes:
		own = ownNewlinesAndSlashes(m, s, i)
	case r.joinsNewlines: // the carry propagates through the newlines directly after a mark
		own = m.newline &^ (m.newline + m.newline&(m.marks()<<1))
	}
	starts, first := r.startsWhiteAndMarks(m, own)
	starts |= startsOfWords(m, first) | r.startsOfDigits(m.digit)
	if r.splitsCases {
		starts |= m.upper & (m.lower << 1)
	}
	switch r.contractions {
	case anyCaseContractions:
		if a := m.apostrophe & first; a != 0 {
			_, after := contractions(a, s, i, true)
			starts |= after & l
		}
	case suffixContractions:
		starts = joinContractions(starts, m, s, i)
	}
	return starts
}

// startsSpaced is the rule in which a space belongs to any word after it.
func (r *blockRule) startsSpaced(m *masks, s []byte, i int) uint64 {
	l, d, w, p := m.letters(), m.digit, m.white(), m.marks()
	starts := (l&^(l<<1) | p&^(p<<1)) &^ (m.space << 1)
	last := w &^ (w >> 1)
	if r.digitsFirst {
		starts |= d
		last &^= d >> 1
	} else {
		starts |= d &^ (d << 1) &^ (m.space << 1)
	}
	starts |= w&^(w<<1) | last
	if a := m.apostrophe & (starts | 1); a != 0 {
		inside, after := contractions(a, s, i, false)
		starts = starts&^inside | after&l
	}
	return starts
}

// contractions returns, for the contractions that start at the apostrophes in at, the first letter of each and the
// place after each.
func contractions(at uint64, s []byte, i int, ignoreCase bool) (inside, after uint64) {
	for ; at != 0; at &= at - 1 {
		k := bits.TrailingZeros64(at)
		if end := contraction(s, i+k, ignoreCase); end > 0 {
			inside |= 2 << k
			after |= 1 << (end - i)
		}
	}
	return inside, after
}

// joinContractions joins contractions to the words before them.
func joinContractions(starts uint64, m *masks, s []byte, i int) uint64 {
	l := m.letters()
	last := -1
	for a := m.apostrophe & (l << 1); a != 0; a &= a - 1 {
		k := bits.TrailingZeros64(a)
		if k == last { // after a contraction, not after a word
			continue
		}
		if end := contraction(s, i+k, true); end > 0 {
			last = end - i
			starts &^= 1<<last - 1<<k
			starts |= 1 << last & l
		}
	}
	return starts
}

// ownNewlinesAndSlashes returns the runs of newlines and slashes that start with a newline directly after a mark:
// they belong to the mark's word.
func ownNewlinesAndSlashes(m *masks, s []byte, i int) (own uint64) {
	after := m.newline & (m.marks() << 1)
	carried := m.newline + after // the carry propagates through the newlines to what follows them
	own = m.newline &^ carried
	for next := carried &^ m.newline & m.marks(); next != 0; next &= next - 1 {
		for k := bits.TrailingZeros64(next); k < blockSize; k++ {
			if m.newline>>k&1 == 0 && (i+k >= len(s) || s[i+k] != '/') {
				break
			}
			own |= 1 << k
		}
	}
	return own
}

// startsWhiteAndMarks returns the word starts at whitespace and marks, without the own bytes, which belong to the
// marks before them. first are the marks that start a run without a space before it.
func (r *blockRule) startsWhiteAndMarks(m *masks, own uint64) (starts, first uint64) {
	white := m.white() &^ own
	marks := m.marks() &^ own
	first = marks &^ (marks<<1 | m.space<<1)
	last := m.blank &^ (m.white() >> 1) // belongs to what follows, if anything can
	if r.digitsFirst {
		last &^= m.digit >> 1
	}
	starts = first | white&^(white<<1) | last
	newline := m.newline & white
	behind := m.blank & (newline << 1) // the blank after the last newline of whitespace starts a word
	// But not if blanks and another newline follow it: the carry propagates through the blanks to that newline.
	for again := (m.blank + behind) &^ m.blank & newline; again != 0; again &= again - 1 {
		k := bits.TrailingZeros64(again)
		behind &^= 1 << (63 - bits.LeadingZeros64(behind&(1<<k-1)))
	}
	return starts | behind, first
}

// startsOfWords returns the letters with neither a letter nor a character that belongs to the word before them.
func startsOfWords(m *masks, firstMarks uint64) uint64 {
	l := m.letters()
	if m.inside != 0 { // a mark may have up to three bytes
		firstMarks |= firstMarks << 1 & m.inside
		firstMarks |= firstMarks << 1 & m.inside
	}
	return l &^ (l<<1 | m.blank<<1 | firstMarks<<1)
}

// startsOfDigits returns every third digit of a run, or every digit.
func (r *blockRule) startsOfDigits(d uint64) uint64 {
	if r.digits == 1 {
		return d
	}
	starts := d &^ (d << 1)
	third := d & (d << 1) & (d << 2)
	for t := starts << 3 & d & (third << 1); t != 0; t = t << 3 & d & (third << 1) {
		starts |= t
	}
	return starts
}

// contraction returns the end of 's 't 're 've 'm 'll 'd at the apostrophe s[i], or 0. If ignoreCase is set, U+017F,
// the long s, matches s.
func contraction(s []byte, i int, ignoreCase bool) int {
	if i+1 >= len(s) {
		return 0
	}
	if ignoreCase && s[i+1] == 0xC5 && i+2 < len(s) && s[i+2] == 0xBF {
		return i + 3
	}
	switch a := lower(s[i+1], ignoreCase); a {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v', 'l':
		if i+2 < len(s) {
			b := lower(s[i+2], ignoreCase)
			if a == 'l' && b == 'l' || a != 'l' && b == 'e' {
				return i + 3
			}
		}
	}
	return 0
}

func lower(b byte, ignoreCase bool) byte {
	if ignoreCase && b >= 'A' && b <= 'Z' {
		b |= 0x20
	}
	return b
}
