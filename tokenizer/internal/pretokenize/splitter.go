// Package pretokenize splits text into words, which are merged separately. It applies patterns in sequence, exact for
// any text. For the patterns of published tokenizers it also uses bit masks, which find the words of 64 bytes
// together. If merging starts with characters, it splits at the places that no token covers.
package pretokenize

import (
	"encoding/binary"
	"math/bits"

	"loaderd/tokenizer/internal/pattern"
)

// Splitter splits text for a family: by the automatons of its patterns, exact for any text. If the family has a rule,
// the rule finds the words of a block of ASCII together.
type Splitter struct {
	stages  Stages
	rule    *blockRule
	letters *letterKinds     // of the rule, or nil
	single  *pattern.Pattern // the only stage, if it matches everywhere
}

func newSplitter(list Stages, rule *blockRule) Splitter {
	sp := Splitter{stages: list, rule: rule}
	if rule != nil && rule.letters != nil {
		sp.letters = rule.letters()
	}
	if len(list) == 1 && !list[0].mergesMatches {
		if p := list[0].pattern; p != nil && !p.HasPlaceConditions() && p.IsTotal() {
			sp.single = p
		}
	}
	return sp
}

const (
	// BatchSize is the number of words that are split before they are encoded.
	BatchSize = 512
	blockSize = 64
)

// block is a block of bytes, followed by the next two bytes, which a character that starts in it may contain.
type block [blockSize + 2]byte

// masks has, for each class of bytes, one bit per byte of a block.
type masks struct {
	upper, lower, digit, blank, space, newline, apostrophe, wide uint64

	inside, first uint64 // of the characters that are not ASCII: the bytes after the first, and the first
}

func (m *masks) letters() uint64 { return m.upper | m.lower }
func (m *masks) white() uint64   { return m.blank | m.newline }
func (m *masks) marks() uint64   { return ^(m.letters() | m.digit | m.white()) } // punctuation, symbols, the rest

// byteClass has bit 8*k set for each byte of class k. So eight bytes shifted by 0..7 and combined give one byte of
// each mask.
var byteClass = newByteClass()

func newByteClass() (t [256]uint64) {
	const upper, lower, digit, blank, space, newline, apostrophe, wide = 0, 8, 16, 24, 32, 40, 48, 56
	for c := range 256 {
		switch {
		case c >= 0x80, c < '\t', c > '\r' && c < ' ', c == 0x7F: // for some patterns control characters are not marks
			t[c] = 1 << wide
		case c >= 'A' && c <= 'Z':
			t[c] = 1 << upper
		case c >= 'a' && c <= 'z':
			t[c] = 1 << lower
		case c >= '0' && c <= '9':
			t[c] = 1 << digit
		case c == ' ':
			t[c] = 1<<blank | 1<<space
		case c == '\r' || c == '\n':
			t[c] = 1 << newline
		case c == '\t' || c == '\v' || c == '\f':
			t[c] = 1 << blank
		case c == '\'':
			t[c] = 1 << apostrophe
		}
	}
	return t
}

func classBits(p []byte) uint64 {
	p = p[:8]
	return byteClass[p[0]] | byteClass[p[1]]<<1 | byteClass[p[2]]<<2 | byteClass[p[3]]<<3 |
		byteClass[p[4]]<<4 | byteClass[p[5]]<<5 | byteClass[p[6]]<<6 | byteClass[p[7]]<<7
}

// swap exchanges the bits of a, shifted by s, with those of b, where mask is set.
func swap(a, b uint64, s uint, mask uint64) (uint64, uint64) {
	t := (a>>s ^ b) & mask
	return a ^ t<<s, b ^ t
}

// classify computes the masks of a block: 64 table loads, then the transpose of an 8x8 matrix of bytes.
func (m *masks) classify(p *block) {
	a, b, c, d := classBits(p[0:]), classBits(p[8:]), classBits(p[16:]), classBits(p[24:])
	e, f, g, h := classBits(p[32:]), classBits(p[40:]), classBits(p[48:]), classBits(p[56:])
	const m4, m2, m1 = 0x00000000ffffffff, 0x0000ffff0000ffff, 0x00ff00ff00ff00ff
	a, e = swap(a, e, 32, m4)
	b, f = swap(b, f, 32, m4)
	c, g = swap(c, g, 32, m4)
	d, h = swap(d, h, 32, m4)
	a, c = swap(a, c, 16, m2)
	b, d = swap(b, d, 16, m2)
	e, g = swap(e, g, 16, m2)
	f, h = swap(f, h, 16, m2)
	a, b = swap(a, b, 8, m1)
	c, d = swap(c, d, 8, m1)
	e, f = swap(e, f, 8, m1)
	g, h = swap(g, h, 8, m1)
	*m = masks{a, b, c, d, e, f, g, h, 0, 0}
	if m.wide != 0 {
		m.inside, m.first = topBits(p)
	}
}

// topBits returns the bytes of a block whose upper bits are 10, and those whose are 11.
func topBits(p *block) (inside, first uint64) {
	for i := 0; i < blockSize; i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		inside |= (x &^ (x << 1) & 0x8080808080808080 >> 7) * 0x0102040810204080 >> 56 << i
		first |= (x & (x << 1) & 0x8080808080808080 >> 7) * 0x0102040810204080 >> 56 << i
	}
	return inside, first
}

// listBitsPlain writes i plus the position of each bit of b after the first n of ends, which must have room for
// blockSize more. It writes in groups of eight, because the number of bits is unpredictable.
func listBitsPlain(ends *[BatchSize]int32, n int, b uint64, i int) {
	for ; b != 0; n += 8 {
		eight := (*[8]int32)(ends[n&(BatchSize-1):])
		for j := range eight {
			eight[j] = int32(i + bits.TrailingZeros64(b))
			b &= b - 1
		}
	}
}

// wideBlock fills the last block of a text: like any byte that is not ASCII it ends the range that a rule covers.
var wideBlock = func() (b block) {
	for i := range b {
		b[i] = 0x80
	}
	return b
}()

// Batch is the scratch space of Split: the ends of the words found, and the masks of the last block.
type Batch struct {
	Ends        [BatchSize]int32
	masks       masks
	open        OpenPieces
	HasNonASCII bool // the words may contain more than ASCII
}

// Split writes the ends of the words of s from i on to w, until it is nearly full or s ends. It returns their number
// and the end of the last.
//
// A block is 64 bytes that start at a word start. Its word starts are certain up to its first byte that is not ASCII,
// or its end, except within whitespace that reaches this limit. The last word of a block, which may continue after
// it, is the first of the next, so no state is carried over. A word that fills a block is left to the scanner.
func (sp *Splitter) Split(s []byte, i int, w *Batch) (n, end int) {
	if w.HasNonASCII = sp.rule == nil; w.HasNonASCII {
		return sp.splitStages(s, i, w)
	}
	var tail block
	m, ends, letters := &w.masks, &w.Ends, sp.letters
	if i == 0 {
		clear(w.open[:len(sp.stages)])
	}
	for n <= BatchSize-blockSize && i < len(s) {
		p := &tail
		if len(s)-i >= len(p) {
			p = (*block)(s[i:])
		} else {
			tail = wideBlock
			copy(tail[:], s[i:])
		}
		m.compute(p)
		limit, certain := uint(blockSize), ^uint64(0)
		if m.wide != 0 {
			w.HasNonASCII = true
			if letters != nil {
				limit = letters.addLetters(m, p, min(blockSize, len(s)-i))
			} else {
				limit = uint(bits.TrailingZeros64(m.wide))
			}
			certain = 1<<limit - 1
		}
		white := m.white() & certain << (blockSize - limit)
		if r := uint(bits.LeadingZeros64(^white)); r > 1 { // in whitespace at the limit only the first may start a word
			certain = 1<<(limit-r+1) - 1
		}
		b := sp.rule.starts(m, s, i) & certain &^ 1
		if b == 0 {
			n, i = sp.scanWide(s, i, i+int(limit), w, n)
			continue
		}
		listBits(ends, n, b, i)
		n += bits.OnesCount64(b)
		i += bits.Len64(b) - 1
	}
	return n, i
}

// scanWide scans at least one word. It continues up to until, or, if the rule supports only ASCII, as long as a byte
// that is not ASCII is near.
func (sp *Splitter) scanWide(s []byte, i, until int, w *Batch, n int) (int, int) {
	for {
		if sp.single != nil {
			i = sp.single.Match(s, i)
		} else {
			i = sp.stages.PieceEnd(s, i, &w.open)
		}
		w.Ends[n] = int32(i)
		n++
		if i >= len(s) || n > BatchSize-blockSize || i+16 > len(s) || sp.letters != nil && i > until {
			return n, i
		}
		if (binary.LittleEndian.Uint64(s[i:])|binary.LittleEndian.Uint64(s[i+8:]))&0x8080808080808080 == 0 {
			return n, i
		}
	}
}
