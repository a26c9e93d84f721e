package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// Normalization form C (Unicode Standard Annex 15), in the version of Unicode that the reference has. x/text follows a
// later one, and puts U+034F after 30 combining marks, which the reference does not.

type combiningClass struct {
	r     rune
	class uint8
}

type decomposition struct {
	r  rune
	to string
}

// nfcTables are the generated tables, made for looking up.
type nfcTables struct {
	class     map[rune]uint8
	decompose map[rune]string
	compose   map[[2]rune]rune
}

var nfc = sync.OnceValue(func() *nfcTables {
	t := &nfcTables{map[rune]uint8{}, map[rune]string{}, map[[2]rune]rune{}}
	for _, c := range combiningClasses {
		t.class[c.r] = c.class
	}
	for _, d := range decompositions {
		t.decompose[d.r] = d.to
	}
	for _, c := range compositions {
		t.compose[[2]rune{c[0], c[1]}] = c[2]
	}
	return t
})

// Hangul syllables are composed of a leading consonant, a vowel and perhaps a trailing consonant, by arithmetic.
const (
	hangulL, hangulV, hangulT, hangulS = 0x1100, 0x1161, 0x11A7, 0xAC00
	hangulLs, hangulVs, hangulTs       = 19, 21, 28
)

// normalizer holds the scratch space of one goroutine.
type normalizer struct {
	out  []byte
	mark []marked
}

// marked is a character with its combining class.
type marked struct {
	r     rune
	class uint8
}

// nfc returns s in form C: s itself where nothing in it is unstable, else a buffer that the next call uses again. A stable
// character does not act on what is before it, so text is normalized from one to the next.
func (n *normalizer) nfc(s []byte) []byte {
	changed := false
	start, done := 0, 0 // the last stable character; what has been copied
	for i := 0; i < len(s); {
		c, size := classAt(s, i)
		if c&isUnstable == 0 {
			start = i
			i += size
			continue
		}
		end := run(s, i, isUnstable)
		if !changed {
			changed, n.out = true, keep(n.out)
		}
		n.out = append(n.out, s[done:start]...)
		n.chunk(s[start:end])
		i, start, done = end, end, end
	}
	if !changed {
		return s
	}
	n.out = append(n.out, s[done:]...)
	return n.out
}

// chunk appends the form C of s.
func (n *normalizer) chunk(s []byte) {
	n.mark = n.mark[:0]
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		n.decompose(r)
		s = s[size:]
	}
	n.order()
	n.compose()
	for _, m := range n.mark {
		n.out = utf8.AppendRune(n.out, m.r)
	}
	if cap(n.mark) > keepNodes {
		n.mark = nil
	}
}

func (n *normalizer) decompose(r rune) {
	if k := r - hangulS; k >= 0 && k < hangulLs*hangulVs*hangulTs {
		n.mark = append(n.mark, marked{r: hangulL + k/(hangulVs*hangulTs)}, marked{r: hangulV + k%(hangulVs*hangulTs)/hangulTs})
		if t := k % hangulTs; t > 0 {
			n.mark = append(n.mark, marked{r: hangulT + t})
		}
		return
	}
	to, ok := nfc().decompose[r]
	if !ok {
		n.mark = append(n.mark, marked{r, nfc().class[r]})
	}
	for _, r := range to {
		n.mark = append(n.mark, marked{r, nfc().class[r]})
	}
}

// order sorts each run of combining characters by class; equals keep their order.
func (n *normalizer) order() {
	for i := 0; i < len(n.mark); {
		j := i
		for j < len(n.mark) && n.mark[j].class > 0 {
			j++
		}
		slices.SortStableFunc(n.mark[i:j], func(a, b marked) int { return int(a.class) - int(b.class) })
		i = j + 1
	}
}

// compose joins each character that nothing blocks to the starter before it.
func (n *normalizer) compose() {
	out, starter, last := n.mark[:0], -1, uint8(0)
	for _, m := range n.mark {
		if starter >= 0 && (last == 0 || last < m.class) {
			if r, ok := composed(out[starter].r, m.r); ok {
				out[starter].r = r
				continue
			}
		}
		if last = m.class; last == 0 {
			starter = len(out)
		}
		out = append(out, m)
	}
	n.mark = out
}

func composed(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < hangulLs && v >= 0 && v < hangulVs {
		return hangulS + (l*hangulVs+v)*hangulTs, true
	}
	if k, t := a-hangulS, b-hangulT; k >= 0 && k < hangulLs*hangulVs*hangulTs && k%hangulTs == 0 && t > 0 && t < hangulTs {
		return a + t, true
	}
	r, ok := nfc().compose[[2]rune{a, b}]
	return r, ok
}
