package norm

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"unicode/utf8"

	"loaderd/tokenizer/internal/pairs"
	"loaderd/tokenizer/internal/ucd"
)

// Normalization form C (Unicode Standard Annex 15), in the version of Unicode that the reference uses. x/text
// implements a later one, and inserts U+034F after 30 combining marks, which the reference does not.

type combiningClass struct {
	r     rune
	class uint8
}

type decomposition struct {
	r  rune
	to string
}

// nfcTables are the generated tables in a form for lookups: two stages as in ucd for marks and characters that
// decompose, and the pairs that compose.
type nfcTables struct {
	page    [0x1100]uint8
	pages   [][256]uint16
	char    []nfcChar // the first is that of all other characters
	compose pairs.Table
}

// nfcChar is a combining class and the decomposition of a character, nil if it does not decompose.
type nfcChar struct {
	class uint8
	to    []classedRune
}

var nfc = sync.OnceValue(func() *nfcTables {
	t := &nfcTables{pages: make([][256]uint16, 1), char: make([]nfcChar, 1), compose: pairs.New(len(compositions))}
	for _, c := range combiningClasses {
		t.entryFor(c.r).class = c.class
	}
	for _, d := range decompositions {
		t.entryFor(d.r)
	}
	for _, d := range decompositions {
		c := t.entryFor(d.r)
		for _, r := range d.to {
			c.to = append(c.to, classedRune{r, t.lookup(r).class})
		}
	}
	for _, c := range compositions {
		t.compose.Put(uint32(c[0]), uint32(c[1]), uint32(c[2]))
	}
	return t
})

// entryFor returns the entry of a character and creates it if necessary. That invalidates entries returned before.
func (t *nfcTables) entryFor(r rune) *nfcChar {
	if t.page[r>>8] == 0 {
		t.page[r>>8] = uint8(len(t.pages))
		t.pages = append(t.pages, [256]uint16{})
	}
	at := &t.pages[t.page[r>>8]][r&0xff]
	if *at == 0 {
		*at = uint16(len(t.char))
		t.char = append(t.char, nfcChar{})
	}
	return &t.char[*at]
}

func (t *nfcTables) lookup(r rune) *nfcChar { return &t.char[t.pages[t.page[r>>8]][r&0xff]] }

// Hangul syllables are composed of a leading consonant, a vowel and optionally a trailing consonant, by arithmetic.
const (
	hangulL, hangulV, hangulT, hangulS = 0x1100, 0x1161, 0x11A7, 0xAC00
	hangulLN, hangulVN, hangulTN       = 19, 21, 28
)

// normalizer holds the scratch space of one goroutine.
type normalizer struct {
	tables *nfcTables
	out    []byte
	runes  []classedRune
	lower  *variants              // of bert
	ascii  *[utf8.RuneSelf]uint16 // of bert: see asciiTable
}

// classedRune is a character with its combining class.
type classedRune struct {
	r     rune
	class uint8
}

// nfc returns s in form C: s itself if nothing in it is unstable, else a buffer that the next call reuses. A stable
// character does not affect the text before it, so text is normalized from one to the next.
func (n *normalizer) nfc(s []byte) []byte {
	changed := false
	start, done := 0, 0 // the last stable character; end of the copied text
	for i := 0; i < len(s); {
		if k := asciiEnd(s, i); k > i {
			start, i = k-1, k
			continue
		}
		c, size := ucd.ClassAtWide(s[i:])
		if c&ucd.IsUnstable == 0 {
			start = i
			i += size
			continue
		}
		end := ucd.EndOfClass(s, i, ucd.IsUnstable)
		if !changed {
			changed, n.out = true, ReuseBuffer(n.out)
		}
		n.out = append(n.out, s[done:start]...)
		n.appendChunk(s[start:end])
		i, start, done = end, end, end
	}
	if !changed {
		return s
	}
	n.out = append(n.out, s[done:]...)
	return n.out
}

// asciiEnd returns the end of the ASCII text that starts at s[i].
func asciiEnd(s []byte, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if wide := binary.LittleEndian.Uint64(s[i:]) & 0x8080808080808080; wide != 0 {
			return i + bits.TrailingZeros64(wide)/8
		}
	}
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// maxKeptRunes is the maximum number of characters between stable ones for which scratch space is kept.
const maxKeptRunes = 1 << 16

// appendChunk appends the form C of s.
func (n *normalizer) appendChunk(s []byte) {
	if n.tables == nil {
		n.tables = nfc()
	}
	if n.appendPair(s) {
		return
	}
	n.runes = n.runes[:0]
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		n.decompose(r)
		s = s[size:]
	}
	n.sortMarks()
	n.compose()
	for _, m := range n.runes {
		n.out = utf8.AppendRune(n.out, m.r)
	}
	if cap(n.runes) > maxKeptRunes {
		n.runes = nil
	}
}

// appendPair does the work of chunk if s is a character and a mark, neither of which decomposes, the usual case.
func (n *normalizer) appendPair(s []byte) bool {
	a, size := utf8.DecodeRune(s)
	b, rest := utf8.DecodeRune(s[size:])
	if rest == 0 || size+rest < len(s) || a >= hangulL && isHangul(a) || b >= hangulL && isHangul(b) {
		return false
	}
	base, mark := n.tables.lookup(a), n.tables.lookup(b)
	if base.class > 0 || base.to != nil || mark.to != nil {
		return false
	}
	if r := n.tables.compose.Rank(uint32(a), uint32(b)); r != pairs.None {
		n.out = utf8.AppendRune(n.out, rune(r))
	} else {
		n.out = append(n.out, s...)
	}
	return true
}

// isHangul reports whether a character, U+1100 or later, is composed or composes by arithmetic.
func isHangul(r rune) bool {
	return r < hangulT+hangulTN || r >= hangulS && r < hangulS+hangulLN*hangulVN*hangulTN
}

func (n *normalizer) decompose(r rune) {
	if k := r - hangulS; k >= 0 && k < hangulLN*hangulVN*hangulTN {
		n.runes = append(n.runes, classedRune{r: hangulL + k/(hangulVN*hangulTN)},
			classedRune{r: hangulV + k%(hangulVN*hangulTN)/hangulTN})
		if t := k % hangulTN; t > 0 {
			n.runes = append(n.runes, classedRune{r: hangulT + t})
		}
		return
	}
	c := n.tables.lookup(r)
	if c.to == nil {
		n.runes = append(n.runes, classedRune{r, c.class})
	}
	n.runes = append(n.runes, c.to...)
}

// sortMarks sorts each run of combining characters by class; equals keep their order.
func (n *normalizer) sortMarks() {
	for i := 0; i < len(n.runes); {
		j := i
		for j < len(n.runes) && n.runes[j].class > 0 {
			j++
		}
		if byClass := func(a, b classedRune) int {
			return int(a.class) - int(b.class)
		}; !slices.IsSortedFunc(n.runes[i:j], byClass) {
			slices.SortStableFunc(n.runes[i:j], byClass)
		}
		i = j + 1
	}
}

// compose joins each unblocked character to the starter before it.
func (n *normalizer) compose() {
	out, starter, last := n.runes[:0], -1, uint8(0)
	for _, m := range n.runes {
		if starter >= 0 && (last == 0 || last < m.class) {
			if r, ok := n.composePair(out[starter].r, m.r); ok {
				out[starter].r = r
				continue
			}
		}
		if last = m.class; last == 0 {
			starter = len(out)
		}
		out = append(out, m)
	}
	n.runes = out
}

func (n *normalizer) composePair(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < hangulLN && v >= 0 && v < hangulVN {
		return hangulS + (l*hangulVN+v)*hangulTN, true
	}
	if k, t := a-hangulS, b-hangulT; k >= 0 && k < hangulLN*hangulVN*hangulTN && k%hangulTN == 0 && t > 0 && t < hangulTN {
		return a + t, true
	}
	r := n.tables.compose.Rank(uint32(a), uint32(b))
	return rune(r), r != pairs.None
}
