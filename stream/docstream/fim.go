package docstream

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"loaderd/shuffle"
)

// fim implements fill-in-the-middle (Bavarian et al., 2022). It cuts a document into three parts at two positions
// that are drawn uniformly. It reorders the parts and puts a token (a sentinel) before each. A model thus learns to
// write what belongs between two parts:
//
//	PSM  prefix token, prefix, suffix token, suffix, middle token, middle
//	SPM  prefix token, suffix token, suffix, middle token, prefix, middle
//
// The draws for a document are keyed by the run's seed and by the document's content alone.
type fim struct {
	rate, spmRate float64
	sentinelIDs
	addsSpaces       bool // the tokenizer puts a space before every text and part, so no part can be tokenized separately
	marksTextStart   bool // the tokenizer encodes the beginning of a text differently
	applyKey, spmKey shuffle.Key
	cutKeys          [2]shuffle.Key
}

// sentinelIDs are the tokens before the three parts.
type sentinelIDs struct{ prefix, middle, suffix int32 }

// sentinelCount is how many tokens fill-in-the-middle adds to a document.
const sentinelCount = 3

func newFIM(t Tokenization) (*fim, error) {
	c := t.Documents.FIM
	f := &fim{rate: c.Rate, spmRate: c.SPMRate, applyKey: shuffle.NewKey(t.Seed, "fim"),
		spmKey:  shuffle.NewKey(t.Seed, "fim form"),
		cutKeys: [2]shuffle.Key{shuffle.NewKey(t.Seed, "fim cut 0"), shuffle.NewKey(t.Seed, "fim cut 1")}}
	var err error
	if f.prefix, err = t.resolveToken("documents.fim.tokens.prefix", c.Tokens.Prefix); err != nil {
		return nil, err
	}
	if f.middle, err = t.resolveToken("documents.fim.tokens.middle", c.Tokens.Middle); err != nil {
		return nil, err
	}
	if f.suffix, err = t.resolveToken("documents.fim.tokens.suffix", c.Tokens.Suffix); err != nil {
		return nil, err
	}
	f.addsSpaces, f.marksTextStart = t.addsSpaces(), t.marksTextStart()
	return f, nil
}

// marksTextStart reports whether the tokenizer encodes the beginning of a text differently than the same bytes within a
// text.
func (t Tokenization) marksTextStart() bool {
	if t.NewEncoder == nil {
		return false
	}
	part, e := []byte("a"), t.NewEncoder()
	return !slices.Equal(e.EncodePart(nil, part, true, false), e.EncodePart(nil, part, false, false))
}

// addsSpaces reports whether parts of a text that are tokenized separately decode to another text.
func (t Tokenization) addsSpaces() bool {
	if t.NewEncoder == nil || t.Decode == nil {
		return false
	}
	part, e := []byte("a"), t.NewEncoder()
	return string(t.Decode(nil, e.EncodePart(e.EncodePart(nil, part, true, false), part, false, true))) != "aa"
}

// fimDraw holds the draws for one document.
type fimDraw struct {
	fim     *fim
	content uint64 // hash of the document's content
}

// fimLayout is how a document is reordered. Its first a tokens are the prefix, those from b on are the suffix.
type fimLayout struct {
	spm  bool
	a, b int
}

// drawText returns the draws for a text, and whether fill-in-the-middle applies to it.
func (f *fim) drawText(text []byte) (fimDraw, bool) {
	if f == nil {
		return fimDraw{}, false
	}
	return f.draw(xxhash.Sum64(text))
}

// drawTokens is drawText for a document that arrived as tokens.
func (f *fim) drawTokens(ids []int32) (fimDraw, bool) {
	if f == nil {
		return fimDraw{}, false
	}
	var hash xxhash.Digest
	hash.Reset()
	var b [256]byte
	for len(ids) > 0 {
		n := min(len(ids), len(b)/4)
		for i, id := range ids[:n] {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(id))
		}
		_, _ = hash.Write(b[:4*n]) // never fails
		ids = ids[n:]
	}
	return f.draw(hash.Sum64())
}

func (f *fim) draw(content uint64) (fimDraw, bool) {
	return fimDraw{f, content}, drawUniform(f.applyKey, content) < f.rate
}

// drawUniform draws a number in [0, 1).
func drawUniform(k shuffle.Key, content uint64) float64 {
	return float64(k.Uint64(content)>>11) / (1 << 53)
}

// cutPositions draws two of the n+1 positions before, between and after n items, in ascending order.
func (d fimDraw) cutPositions(n int) (a, b int) {
	a, b = d.fim.cutKeys[0].IntN(d.content, n+1), d.fim.cutKeys[1].IntN(d.content, n+1)
	return min(a, b), max(a, b)
}

func (d fimDraw) isSPM() bool { return drawUniform(d.fim.spmKey, d.content) < d.fim.spmRate }

// cutTokens cuts a document between tokens.
func (d fimDraw) cutTokens(tokens int) *fimLayout {
	a, b := d.cutPositions(tokens)
	return &fimLayout{d.isSPM(), a, b}
}

// cutText cuts a text between characters. The caller sets the cuts of the form in tokens.
func (d fimDraw) cutText(text []byte) ([]part, fimLayout) {
	n := 0
	for i := range text {
		if startsCharacter(text, i) {
			n++
		}
	}
	a, b := d.cutPositions(n)
	if n < len(text) { // otherwise each character is a byte
		a, b = characterOffsets(text, a, b)
	}
	return []part{{text[:a], true}, {text[a:b], true}, {text[b:], true}}, fimLayout{spm: d.isSPM()}
}

// characterOffsets returns the bytes at which characters a and b of a text begin, its length for one after the last.
func characterOffsets(text []byte, a, b int) (int, int) {
	at := [2]int{len(text), len(text)}
	n := 0
	for i := range text {
		if !startsCharacter(text, i) {
			continue
		}
		if n == a {
			at[0] = i
		}
		if n == b {
			at[1] = i
			break
		}
		n++
	}
	return at[0], at[1]
}

// startsCharacter reports whether a character of the text begins at byte i. Stray continuation bytes belong to the
// preceding character. No cut therefore changes how many characters invalid UTF-8 decodes to.
func startsCharacter(text []byte, i int) bool { return i == 0 || utf8.RuneStart(text[i]) }

// appendParts appends the tokens of a document in the order of the form, with the sentinels.
func (f sentinelIDs) appendParts(dst, own []int32, x fimLayout) []int32 {
	prefix, middle, suffix := own[:x.a], own[x.a:x.b], own[x.b:]
	if x.spm {
		dst = append(append(dst, f.prefix, f.suffix), suffix...)
		return append(append(append(dst, f.middle), prefix...), middle...)
	}
	dst = append(append(dst, f.prefix), prefix...)
	dst = append(append(dst, f.suffix), suffix...)
	return append(append(dst, f.middle), middle...)
}

// trimPartialCharacter removes an incomplete character from the end of a text that was cut between two of its tokens.
func trimPartialCharacter(text []byte) []byte {
	for i := len(text) - 1; i >= max(len(text)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}
