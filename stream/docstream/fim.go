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
	spaced  bool // the tokenizer puts a space before every text and part, so no part can be tokenized separately
	begins  bool // the tokenizer encodes the beginning of a text differently
	is, spm shuffle.Key
	cuts    [2]shuffle.Key
}

// sentinelIDs are the tokens before the three parts.
type sentinelIDs struct{ prefix, middle, suffix int32 }

// sentinels is how many tokens fill-in-the-middle adds to a document.
const sentinels = 3

func newFIM(t Tokenizing) (*fim, error) {
	c := t.Documents.FIM
	f := &fim{rate: c.Rate, spmRate: c.SPMRate, is: shuffle.NewKey(t.Seed, "fim"), spm: shuffle.NewKey(t.Seed, "fim form"),
		cuts: [2]shuffle.Key{shuffle.NewKey(t.Seed, "fim cut 0"), shuffle.NewKey(t.Seed, "fim cut 1")}}
	var err error
	if f.prefix, err = t.id("documents.fim.tokens.prefix", c.Tokens.Prefix); err != nil {
		return nil, err
	}
	if f.middle, err = t.id("documents.fim.tokens.middle", c.Tokens.Middle); err != nil {
		return nil, err
	}
	if f.suffix, err = t.id("documents.fim.tokens.suffix", c.Tokens.Suffix); err != nil {
		return nil, err
	}
	f.spaced, f.begins = t.spaces(), t.begins()
	return f, nil
}

// begins reports whether the tokenizer encodes the beginning of a text differently than the same bytes within a text.
func (t Tokenizing) begins() bool {
	if t.NewEncoder == nil {
		return false
	}
	part, e := []byte("a"), t.NewEncoder()
	return !slices.Equal(e.EncodePart(nil, part, true, false), e.EncodePart(nil, part, false, false))
}

// spaces reports whether parts of a text that are tokenized separately decode to another text.
func (t Tokenizing) spaces() bool {
	if t.NewEncoder == nil || t.Decode == nil {
		return false
	}
	part, e := []byte("a"), t.NewEncoder()
	return string(t.Decode(nil, e.EncodePart(e.EncodePart(nil, part, true, false), part, false, true))) != "aa"
}

// drawn holds the draws for one document.
type drawn struct {
	fim     *fim
	content uint64 // hash of the document's content
}

// form is how a document is reordered. Its first a tokens are the prefix, those from b on are the suffix.
type form struct {
	spm  bool
	a, b int
}

// ofText returns the draws for a text, and whether fill-in-the-middle applies to it.
func (f *fim) ofText(text []byte) (drawn, bool) {
	if f == nil {
		return drawn{}, false
	}
	return f.of(xxhash.Sum64(text))
}

// ofTokens is ofText for a document that arrived as tokens.
func (f *fim) ofTokens(ids []int32) (drawn, bool) {
	if f == nil {
		return drawn{}, false
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
	return f.of(hash.Sum64())
}

func (f *fim) of(content uint64) (drawn, bool) {
	return drawn{f, content}, share(f.is, content) < f.rate
}

// share draws a number in [0, 1).
func share(k shuffle.Key, content uint64) float64 { return float64(k.Uint64(content)>>11) / (1 << 53) }

// places draws two of the n+1 positions before, between and after n items, in ascending order.
func (d drawn) places(n int) (a, b int) {
	a, b = d.fim.cuts[0].Below(d.content, n+1), d.fim.cuts[1].Below(d.content, n+1)
	return min(a, b), max(a, b)
}

func (d drawn) isSPM() bool { return share(d.fim.spm, d.content) < d.fim.spmRate }

// over cuts a document between tokens.
func (d drawn) over(tokens int) *form {
	a, b := d.places(tokens)
	return &form{d.isSPM(), a, b}
}

// characters cuts a text between characters. The caller sets the cuts of the form in tokens.
func (d drawn) characters(text []byte) ([]part, form) {
	n := 0
	for i := range text {
		if begins(text, i) {
			n++
		}
	}
	a, b := d.places(n)
	if n < len(text) { // otherwise each character is a byte
		a, b = offsets(text, a, b)
	}
	return []part{{text[:a], true}, {text[a:b], true}, {text[b:], true}}, form{spm: d.isSPM()}
}

// offsets returns the bytes at which characters a and b of a text begin, its length for one after the last.
func offsets(text []byte, a, b int) (int, int) {
	at := [2]int{len(text), len(text)}
	n := 0
	for i := range text {
		if !begins(text, i) {
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

// begins reports whether a character of the text begins at byte i. Stray continuation bytes belong to the preceding
// character. No cut therefore changes how many characters invalid UTF-8 decodes to.
func begins(text []byte, i int) bool { return i == 0 || utf8.RuneStart(text[i]) }

// fill appends the tokens of a document in the order of the form, with the sentinels.
func (f sentinelIDs) fill(dst, own []int32, x form) []int32 {
	prefix, middle, suffix := own[:x.a], own[x.a:x.b], own[x.b:]
	if x.spm {
		dst = append(append(dst, f.prefix, f.suffix), suffix...)
		return append(append(append(dst, f.middle), prefix...), middle...)
	}
	dst = append(append(dst, f.prefix), prefix...)
	dst = append(append(dst, f.suffix), suffix...)
	return append(append(dst, f.middle), middle...)
}

// wholeCharacters removes an incomplete character from the end of a text that was cut between two of its tokens.
func wholeCharacters(text []byte) []byte {
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
