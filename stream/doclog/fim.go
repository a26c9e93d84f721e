package doclog

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"loaderd/shuffle"
)

// fim fills documents in the middle (Bavarian et al., 2022): a document is cut in three at two places that are drawn
// uniformly, and the parts are put in another order, each behind a token of its own (a sentinel), so that a model
// learns to write what stands between two others:
//
//	PSM  prefix token, prefix, suffix token, suffix, middle token, middle
//	SPM  prefix token, suffix token, suffix, middle token, prefix, middle
//
// What is drawn for a document is keyed by the run's seed and by the document's content alone.
type fim struct {
	rate, spmRate float64
	sentinelIDs
	spaced  bool // the tokenizer puts a space before every text, parts of one included: none can be tokenized by itself
	begins  bool // it treats the beginning of a text in another way than what comes within
	is, spm shuffle.Key
	cuts    [2]shuffle.Key
}

// sentinelIDs are the tokens before the three parts.
type sentinelIDs struct{ prefix, middle, suffix int32 }

// sentinels is how many tokens a document has more when it is filled in.
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

// begins reports whether what a text begins with becomes other tokens than it would within one.
func (t Tokenizing) begins() bool {
	if t.NewEncoder == nil {
		return false
	}
	part, e := []byte("a"), t.NewEncoder()
	return !slices.Equal(e.EncodePart(nil, part, true, false), e.EncodePart(nil, part, false, false))
}

// spaces reports whether parts of a text that are tokenized by themselves are another text together.
func (t Tokenizing) spaces() bool {
	if t.NewEncoder == nil || t.Decode == nil {
		return false
	}
	part, e := []byte("a"), t.NewEncoder()
	return string(t.Decode(nil, e.EncodePart(e.EncodePart(nil, part, true, false), part, false, true))) != "aa"
}

// drawn is what is drawn for one document.
type drawn struct {
	fim     *fim
	content uint64 // hash of the document's content
}

// form is how a document is filled in: its first a tokens are the prefix, those from b on the suffix.
type form struct {
	spm  bool
	a, b int
}

// ofText draws for a text, and says whether it is to be filled in.
func (f *fim) ofText(text []byte) (drawn, bool) {
	if f == nil {
		return drawn{}, false
	}
	return f.of(xxhash.Sum64(text))
}

// ofTokens is ofText for a document that came as tokens.
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

// share draws a number of 0 to below 1.
func share(k shuffle.Key, content uint64) float64 { return float64(k.Uint64(content)>>11) / (1 << 53) }

// places draws two of the n+1 places between, before and behind n things.
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

// characters cuts a text between characters. Where the cuts are in tokens is left to be said.
func (d drawn) characters(text []byte) ([]part, form) {
	n := 0
	for i := range text {
		if begins(text, i) {
			n++
		}
	}
	a, b := d.places(n)
	if n < len(text) { // else each is a byte
		a, b = offsets(text, a, b)
	}
	return []part{{text[:a], true}, {text[a:b], true}, {text[b:], true}}, form{spm: d.isSPM()}
}

// offsets returns the bytes at which two characters of a text begin, its length for one behind the last.
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

// begins reports whether a character of the text begins at a byte. Bytes that continue none count to the one before: so
// no cut changes how many characters invalid UTF-8 is taken for.
func begins(text []byte, i int) bool { return i == 0 || utf8.RuneStart(text[i]) }

// fill appends the tokens of a document as the form has them.
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

// wholeCharacters leaves out the begin of a character at the end of a text, which was cut between two of its tokens.
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
