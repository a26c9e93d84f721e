package tokenizer

import "math/bits"

// The rules find word starts in a block by bit algebra: x<<1 are the places after x, x>>1 the places before it. They
// agree with the scanners of scan.go on ASCII.

// startsGPT2 is the rule of scanGPT2.
func startsGPT2(m *masks, s []byte, i int) uint64 {
	l, d, w, p := m.letters(), m.digit, m.white(), m.marks()
	starts := (l&^(l<<1) | d&^(d<<1) | p&^(p<<1)) &^ (m.space << 1)
	starts |= w&^(w<<1) | w&^(w>>1) // the first and the last of whitespace
	if a := m.apostrophe & (starts | 1); a != 0 {
		inside, after := contractions(a, s, i, false)
		starts = starts&^inside | after&l
	}
	return starts
}

// contractions returns, for the contractions that begin at the apostrophes in at, the first letter of each and the
// place behind each.
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

func startsCL100K(m *masks, s []byte, i int) uint64 { return startsCL(m, s, i, true) }
func startsQwen(m *masks, s []byte, i int) uint64   { return startsCL(m, s, i, false) }

// startsCL is the rule of scanCL with three digits, or one.
func startsCL(m *masks, s []byte, i int, three bool) uint64 {
	l := m.letters()
	// newlines right behind a mark belong to its word: the carry runs through them
	own := m.newline &^ (m.newline + m.newline&(m.marks()<<1))
	starts, first := startsWhiteAndMarks(m, own)
	starts |= startsOfWords(m, first) | startsOfDigits(m.digit, three)
	if a := m.apostrophe & first; a != 0 {
		_, after := contractions(a, s, i, true)
		starts |= after & l
	}
	return starts
}

// startsO200K is the rule of scanO200K.
func startsO200K(m *masks, s []byte, i int) uint64 {
	l := m.letters()
	starts, first := startsWhiteAndMarks(m, ownNewlinesAndSlashes(m, s, i))
	starts |= startsOfWords(m, first) | startsOfDigits(m.digit, true)
	starts |= m.upper & (m.lower << 1)
	last := -1
	for a := m.apostrophe & (l << 1); a != 0; a &= a - 1 {
		k := bits.TrailingZeros64(a)
		if k == last { // behind a contraction, not behind a word
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

// ownNewlinesAndSlashes are the runs of newlines and slashes that begin with a newline right behind a mark: they belong
// to the mark's word.
func ownNewlinesAndSlashes(m *masks, s []byte, i int) (own uint64) {
	for after := m.newline & (m.marks() << 1); after != 0; after &^= own {
		for k := bits.TrailingZeros64(after); k < blockSize; k++ {
			if m.newline>>k&1 == 0 && (i+k >= len(s) || s[i+k] != '/') {
				break
			}
			own |= 1 << k
		}
	}
	return own
}

// startsWhiteAndMarks are the word starts at whitespace and marks, without the own bytes, which belong to the marks before
// them. first are the marks that are the first of their run and have no space before.
func startsWhiteAndMarks(m *masks, own uint64) (starts, first uint64) {
	white := m.white() &^ own
	marks := m.marks() &^ own
	first = marks &^ (marks<<1 | m.space<<1)
	starts = first | white&^(white<<1) | m.blank&^(m.white()>>1)
	newline := m.newline & white
	behind := m.blank & (newline << 1) // the blank behind the last newline of whitespace starts a word
	// but not behind one that blanks and another newline follow: the carry runs through the blanks to it
	for again := (m.blank + behind) &^ m.blank & newline; again != 0; again &= again - 1 {
		k := bits.TrailingZeros64(again)
		behind &^= 1 << (63 - bits.LeadingZeros64(behind&(1<<k-1)))
	}
	return starts | behind, first
}

// startsOfWords are the letters that neither a letter nor a character that goes with them is before.
func startsOfWords(m *masks, firstMarks uint64) uint64 {
	l := m.letters()
	return l &^ (l<<1 | m.blank<<1 | firstMarks<<1)
}

// startsOfDigits are every third digit of a run, or every digit.
func startsOfDigits(d uint64, three bool) uint64 {
	if !three {
		return d
	}
	starts := d &^ (d << 1)
	third := d & (d << 1) & (d << 2)
	for t := starts << 3 & d & (third << 1); t != 0; t = t << 3 & d & (third << 1) {
		starts |= t
	}
	return starts
}
