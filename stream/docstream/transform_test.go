package docstream

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/internal/testscale"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/tokenizer"
)

// Tokens of byteTokenizing beyond those of bytes.
const (
	endToken = 256 + iota
	bosToken
	preToken
	midToken
	sufToken
	byteVocab
)

// fills returns a configuration that applies fill-in-the-middle to a share of the documents.
func fills(rate, spmRate float64) runconfig.FIM {
	return runconfig.FIM{Rate: rate, SPMRate: spmRate, Tokens: runconfig.FIMTokens{Prefix: "258", Middle: "259",
		Suffix: "260"}}
}

func byteTokenizing(c runconfig.Documents, seed uint64) Tokenization {
	return Tokenization{NewEncoder: func() Encoder {
		return upper{}
	}, VocabSize: byteVocab, End: endToken, Documents: c, Seed: seed,
		Decode: func(dst []byte, ids []int32) []byte {
			for _, id := range ids {
				dst = append(dst, byte(id))
			}
			return dst
		}}
}

// letters returns a document of random letters, as a text or as ids, and its text.
func letters(r *rand.Rand, n int, asIDs bool) (text []byte, d decodedDocument) {
	text = make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(r.IntN(26))
	}
	if asIDs {
		return text, decodedDocument{tokens: spelled(string(text))}
	}
	return text, decodedDocument{text: text}
}

// transforming is a transformation with an encoder for it.
type transforming struct {
	transform
	encoder *workspace
}

func newTransforming(t testing.TB, tokens Tokenization) transforming {
	t.Helper()
	x, err := newTransform(tokens, tokens.maxDocumentTokens())
	if err != nil {
		t.Fatal(err)
	}
	return transforming{x, &workspace{shared: NewEncoderPool(tokens.NewEncoder, 1)}}
}

func (x *transforming) make(t testing.TB, d decodedDocument) transformResult {
	t.Helper()
	d.tokens = slices.Clone(d.tokens) // the transformation may overwrite them
	m, failed, _ := x.apply(&d, x.encoder)
	if failed != nil {
		t.Fatalf("%+v: %+v", d, failed)
	}
	return m
}

// spelled returns tokens of a string: bytes, and < > for the tokens around a document, P M S for the sentinels.
func spelled(s string) (ids []int32) {
	for _, c := range []byte(s) {
		id, special := map[byte]int32{'<': bosToken, '>': endToken, 'P': preToken, 'M': midToken, 'S': sufToken}[c]
		if !special {
			id = int32(c)
		}
		ids = append(ids, id)
	}
	return ids
}

func TestTransform_Examples(t *testing.T) {
	text := func(s string) decodedDocument { return decodedDocument{text: []byte(s)} }
	ids := func(s string, loss ...int32) decodedDocument { return decodedDocument{tokens: spelled(s), loss: loss} }
	parts := func(p ...part) decodedDocument { return decodedDocument{parts: p} }
	asks := part{[]byte("ask"), false}
	says := part{[]byte("say"), true}
	bos := runconfig.Documents{BOS: "257"}
	limit := func(at int, do string) runconfig.Documents {
		return runconfig.Documents{BOS: "257", MaxTokens: runconfig.MaxTokens{At: at, Do: do}}
	}
	for _, tt := range []struct {
		name string
		c    runconfig.Documents
		in   decodedDocument
		want string // as spelled reads it
		loss plan.LossRuns
		cut  bool
		skip plan.Skip
	}{
		{name: "nothing", in: text("abc"), want: "abc>"},
		{name: "off", c: runconfig.Documents{BOS: runconfig.TokenNone, FIM: runconfig.FIM{SPMRate: 1},
			MaxTokens: runconfig.MaxTokens{Do: runconfig.MaxCut}}, in: text("abc"), want: "abc>"},
		{name: "bos", c: bos, in: text("abc"), want: "<abc>"},
		{name: "bos of ids", c: bos, in: ids("abc"), want: "<abc>"},
		{name: "bos of ids with an end", c: bos, in: ids("abc>"), want: "<abc>"},
		{name: "bos once", c: bos, in: ids("<abc"), want: "<abc>"},
		{name: "nothing but bos", c: bos, in: ids("<"), skip: plan.SkipEmpty},
		{name: "nothing but bos and end", c: bos, in: ids("<>"), skip: plan.SkipEmpty},
		{name: "empty", c: bos, in: text(""), skip: plan.SkipEmpty},
		{name: "bos without a loss", c: bos, in: parts(asks, says), want: "<asksay>", loss: plan.LossRuns{0, 4, 4}},
		{name: "bos with a loss", c: bos, in: parts(says, asks), want: "<sayask>", loss: plan.LossRuns{4, 4}},
		{name: "bos of ids without a loss", c: bos, in: ids("abc", 0, 1, 2), want: "<abc>", loss: plan.LossRuns{0, 2, 3}},
		{name: "bos of ids with a loss of its own", c: bos, in: ids("<abc>", 1, 2, 2), want: "<abc>",
			loss: plan.LossRuns{1, 2, 2}},
		{name: "bos behind an empty part", c: bos, in: parts(part{nil, true}, asks, says), want: "<asksay>",
			loss: plan.LossRuns{0, 4, 4}},
		{name: "short enough", c: limit(3, runconfig.MaxCut), in: text("abc"), want: "<abc>"},
		{name: "ids that are short enough", c: limit(3, runconfig.MaxCut), in: ids("<abc>"), want: "<abc>"},
		{name: "cut", c: limit(3, runconfig.MaxCut), in: text("abcd"), want: "<abc", cut: true},
		{name: "ids that are cut", c: limit(3, runconfig.MaxCut), in: ids("abcd"), want: "<abc", cut: true},
		{name: "ids with bos and end that are cut", c: limit(3, runconfig.MaxCut), in: ids("<abcd>"), want: "<abc",
			cut: true},
		{name: "cut within a part with a loss", c: limit(4, runconfig.MaxCut), in: parts(asks, says), want: "<asks",
			loss: plan.LossRuns{0, 4, 1}, cut: true},
		{name: "cut before the loss", c: limit(3, runconfig.MaxCut), in: parts(asks, says), skip: plan.SkipMasked},
		{name: "cut behind the loss", c: limit(3, runconfig.MaxCut), in: parts(says, asks), want: "<say", cut: true},
		{name: "ids that are cut within a run", c: limit(2, runconfig.MaxCut), in: ids("<abc>", 2, 2, 1), want: "<ab",
			loss: plan.LossRuns{2, 1}, cut: true},
		{name: "dropped", c: limit(3, runconfig.MaxDrop), in: text("abcd"), skip: plan.SkipLong},
		{name: "ids that are dropped", c: limit(3, runconfig.MaxDrop), in: ids("<abcd"), skip: plan.SkipLong},
		{name: "parts that are dropped", c: limit(5, runconfig.MaxDrop), in: parts(asks, says), skip: plan.SkipLong},
		{name: "not dropped", c: limit(4, runconfig.MaxDrop), in: ids("<abcd>"), want: "<abcd>"},
		{name: "parts are not filled in", c: runconfig.Documents{FIM: fills(1, 0)}, in: parts(says, says),
			want: "saysay>"},
		{name: "nor are ids without a loss", c: runconfig.Documents{FIM: fills(1, 0)}, in: ids("abc", 1, 2),
			want: "abc>",
			loss: plan.LossRuns{1, 3}},
		{name: "one is filled in", c: runconfig.Documents{BOS: "257", FIM: fills(1, 0)}, in: text("b"), want: "<PSMb>"},
		{name: "with the suffix first", c: runconfig.Documents{BOS: "257", FIM: fills(1, 1)}, in: ids("<b>"),
			want: "<PSMb>"},
	} {
		for _, narrow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, narrow %v", tt.name, narrow), func(t *testing.T) {
				x := newTransforming(t, byteTokenizing(tt.c, 3))
				x.transform.narrow = narrow
				m := x.make(t, tt.in)
				if m.skip == plan.SkipMasked {
					m.tokens, m.loss = nil, nil
				}
				if (tt.skip == "") != (m.skip == "") || m.skip != tt.skip || m.cut != tt.cut || !slices.Equal(m.loss, tt.loss) ||
					(m.loss == nil) != (tt.loss == nil) {
					t.Errorf("%+v", m)
				}
				if len(m.tokens) > 0 && m.tokens[0] == bosToken && tt.c.FIM.Rate > 0 { // the cuts are drawn
					content, _ := unfilled(t, m.tokens[1:len(m.tokens)-1])
					if len(m.tokens) != len(tt.want) || len(content) != 1 || content[0] != 'b' {
						t.Errorf("%v", m.tokens)
					}
					return
				}
				if !slices.Equal(m.tokens, spelled(tt.want)) {
					t.Errorf("tokens %v, want %v", m.tokens, spelled(tt.want))
				}
				if !narrow && m.cut && cap(m.tokens) > len(m.tokens) {
					t.Errorf("%d tokens keep room for %d", len(m.tokens), cap(m.tokens))
				}
			})
		}
	}
}

// unfilled restores the original order of a document after fill-in-the-middle.
func unfilled(t testing.TB, ids []int32) (content []int32, spm bool) {
	t.Helper()
	s, m := slices.Index(ids, sufToken), slices.Index(ids, midToken)
	if ids[0] != preToken || s < 1 || m < s || slices.Contains(ids[1:], preToken) ||
		slices.Contains(ids[s+1:], sufToken) || slices.Contains(ids[m+1:], midToken) {
		t.Fatalf("%v is not filled in", ids)
	}
	prefix, suffix, middle := ids[1:s], ids[s+1:m], ids[m+1:]
	if s == 1 { // or an empty prefix, where the form makes no difference
		return slices.Concat(middle, suffix), true
	}
	return slices.Concat(prefix, middle, suffix), false
}

// Fill-in-the-middle, and each of its forms, applies to the configured share of the documents within five standard
// deviations. No token is lost. The result is reproducible, and differs under another seed.
func TestFillInMiddle_AppliesToConfiguredShare(t *testing.T) {
	const rate, spmRate = 0.3, 0.4
	n := testscale.Of(5_000, 20_000)
	within := func(what string, got, of int, share float64) {
		t.Helper()
		if off := math.Abs(float64(got) - share*float64(of)); off > 5*math.Sqrt(float64(of)*share*(1-share)) {
			t.Errorf("%s: %d of %d, want a share of %v", what, got, of, share)
		}
	}
	for _, asIDs := range []bool{false, true} {
		x := newTransforming(t, byteTokenizing(runconfig.Documents{FIM: fills(rate, spmRate)}, 1))
		other := newTransforming(t, byteTokenizing(runconfig.Documents{FIM: fills(rate, spmRate)}, 2))
		r := rand.New(rand.NewPCG(1, 2))
		filled, spm, long, differ := 0, 0, 0, 0
		var places [4]int
		for range n {
			text, d := letters(r, 400, asIDs)
			m := x.make(t, d)
			if again := x.make(t, d); !slices.Equal(m.tokens, again.tokens) {
				t.Fatalf("%s becomes another document", text)
			}
			if second := other.make(t, d); !slices.Equal(m.tokens, second.tokens) {
				differ++
			}
			own := m.tokens[:len(m.tokens)-1]
			if m.tokens[len(own)] != endToken || m.loss != nil {
				t.Fatalf("%+v", m)
			}
			if len(own) == len(text) {
				if !slices.Equal(own, spelled(string(text))) {
					t.Fatalf("%s becomes %v", text, own)
				}
				continue
			}
			filled++
			content, first := unfilled(t, own)
			if !slices.Equal(content, spelled(string(text))) {
				t.Fatalf("%s becomes %v", text, own)
			}
			if first {
				spm++
			}
			middle := len(own) - 1 - slices.Index(own, midToken)
			if first { // prefix and middle are adjacent
				continue
			}
			long++
			for i, at := range []int{slices.Index(own, sufToken) - 1, slices.Index(own, sufToken) - 1 + middle} {
				if at < len(text)/2 {
					places[i]++
				}
			}
		}
		within("filled in", filled, n, rate)
		within("suffix first", spm, filled, spmRate+(1-spmRate)*2/401) // an empty prefix looks the same
		// Of two uniform cuts, the first is in the first half with probability 3/4, the second with 1/4.
		within("first cuts", places[0], long, 0.75)
		within("second cuts", places[1], long, 0.25)
		if want := float64(n) * rate; float64(differ) < want {
			t.Errorf("%d documents differ under another seed", differ)
		}
	}
}

// published returns a built-in tokenizer as a daemon configures it.
func published(t testing.TB, name string, c runconfig.Documents) (Tokenization, *tokenizer.Model) {
	t.Helper()
	m, err := tokenizer.Load(name, tokenizer.Options{SpecialAsText: true})
	if err != nil {
		t.Fatal(err)
	}
	return Tokenization{NewEncoder: func() Encoder {
		return m.NewEncoder()
	}, VocabSize: m.VocabSize(), End: -1, Documents: c, Seed: 5,
		Decode: func(dst []byte, ids []int32) []byte {
			text, _ := m.Decode(dst, ids)
			return text
		}}, m
}

// Fill-in-the-middle cuts between characters and tokenizes each part separately, also in the rest of a text that was
// cut.
func TestFillInMiddle_CutsBetweenCharacters(t *testing.T) {
	for name, tokens := range map[string]runconfig.FIMTokens{"cl100k_base": {Prefix: "100258", Middle: "100259",
		Suffix: "100260"}, "gpt2": {Prefix: "1", Middle: "2", Suffix: "3"}} {
		for _, limit := range []int{0, 7} {
			tokenizing, m := published(t, name, runconfig.Documents{FIM: runconfig.FIM{Rate: 1, SPMRate: 0.5,
				Tokens: tokens},
				MaxTokens: runconfig.MaxTokens{At: limit, Do: runconfig.MaxCut}})
			x, e := newTransforming(t, tokenizing), m.NewEncoder()
			for _, text := range []string{"a", "hello world, it's 12 o'clock\n\n", "日本語のテキスト、とても長い文章です。", "e\u0301 😀😀 naïve",
				"func main() {\n\tfmt.Println(\"x\")\n}\n", strings.Repeat("word ", 40), strings.Repeat("😀", 9),
				strings.Repeat("ᚠ", 9),
				"half a \xe4\xb8 and \xff\x80\x80"} {
				got := x.make(t, decodedDocument{text: []byte(text)})
				whole := e.Encode(nil, []byte(text))
				want := text
				if !utf8.ValidString(text) {
					replaced, err := m.Decode(nil, whole)
					if err != nil {
						t.Fatal(err)
					}
					want = string(replaced)
				}
				if got.cut != (limit > 0 && len(whole) > limit) {
					t.Errorf("%s, %q: cut is %v", name, text, got.cut)
				}
				if got.cut {
					kept, err := m.Decode(nil, whole[:limit])
					if err != nil {
						t.Fatal(err)
					}
					want = string(trimPartialCharacter(kept))
				}
				byHand, ok := split(got.tokens, tokenizing, t)
				if !ok {
					t.Fatalf("%s, %q: %v is not filled in", name, text, got.tokens)
				}
				var joined []byte
				for i, ids := range byHand {
					part, err := m.Decode(nil, ids)
					if err != nil {
						t.Fatal(err)
					}
					joined = append(joined, part...)
					alone := slices.Equal(e.EncodePart(nil, part, i == 0, i == 2), ids)
					for at := range part { // prefix and middle after the suffix, with a cut somewhere between them
						alone = alone || i == 1 && slices.Equal(e.EncodePart(e.EncodePart(nil, part[:at], true, false), part[at:], false,
							false), ids)
					}
					if utf8.ValidString(text) && !alone {
						t.Errorf("%s, %q: part %q has tokens %v", name, text, part, ids)
					}
				}
				if string(joined) != want {
					t.Errorf("%s, %q: the parts are %q, want %q", name, text, joined, want)
				}
			}
		}
	}
}

// split returns prefix, middle and suffix. For SPM, prefix and middle are both in the middle.
func split(ids []int32, tokens Tokenization, t testing.TB) (parts [3][]int32, ok bool) {
	t.Helper()
	f, err := newFIM(tokens)
	if err != nil {
		t.Fatal(err)
	}
	s, m := slices.Index(ids, f.suffix), slices.Index(ids, f.middle)
	if ids[0] != f.prefix || s < 1 || m < s {
		return parts, false
	}
	if s > 1 {
		return [3][]int32{ids[1:s], ids[m+1:], ids[s+1 : m]}, true
	}
	return [3][]int32{nil, ids[m+1:], ids[s+1 : m]}, true
}

// For any document and any limits, the tokens are in the vocabulary, the runs add up, and the result is reproducible.
func FuzzTransform(f *testing.F) {
	f.Add([]byte("text"), byte(0), uint16(3), byte(2), uint64(1))
	f.Add([]byte("a\xe4\xb8\x80\x80"), byte(1), uint16(0), byte(255), uint64(2))
	f.Add([]byte("<ids>"), byte(2), uint16(2), byte(128), uint64(3))
	f.Add([]byte("parts"), byte(3), uint16(4), byte(64), uint64(4))
	f.Add([]byte("a text that is split"), byte(32), uint16(4), byte(128), uint64(5))
	f.Add([]byte("\xe4\xb8\x80\xe4\xb8\x80\xe4\xb8\x80"), byte(48), uint16(2), byte(255), uint64(6))
	f.Add([]byte("parts that are split"), byte(35), uint16(5), byte(0), uint64(7))
	real, _ := published(f, "gpt2", runconfig.Documents{})
	f.Fuzz(func(t *testing.T, data []byte, kind byte, at uint16, rate byte, seed uint64) {
		c := runconfig.Documents{BOS: "257", FIM: fills(float64(rate)/255, 0.5),
			MaxTokens: runconfig.MaxTokens{At: int(at), Do: runconfig.MaxCut}}
		if kind&4 != 0 {
			c.MaxTokens.Do = runconfig.MaxDrop
		}
		tokens := byteTokenizing(c, seed)
		if kind&32 != 0 {
			c.MaxTokens.Do = runconfig.MaxSplit
			tokens = byteTokenizing(c, seed)
		}
		if kind&8 != 0 {
			tokens.Decode = nil
		}
		if kind&16 != 0 {
			tokens.NewEncoder, tokens.Decode, tokens.VocabSize, tokens.End = real.NewEncoder, real.Decode, real.VocabSize, 50256
		}
		var d decodedDocument
		switch kind & 3 {
		case 0:
			d.text = data
		case 1:
			for p := range bytes.SplitSeq(data, []byte{' '}) {
				d.parts = append(d.parts, part{p, len(p)%2 == 0})
			}
		default:
			d.tokens = spelled(string(data))
			if d.tokens == nil {
				d.tokens = []int32{}
			}
			if n := len(data); kind&3 == 3 && n > 0 {
				cut := int32(data[0]) % int32(n)
				d.loss = plan.NewLossRuns([]int32{cut, int32(n) - cut})
			}
		}
		x := newTransforming(t, tokens)
		m := x.make(t, d)
		if again := x.make(t, d); !slices.Equal(m.tokens, again.tokens) || !slices.Equal(m.loss, again.loss) ||
			m.skip != again.skip || m.cut != again.cut {
			t.Fatalf("%+v, and again %+v", m, again)
		}
		if m.pieces != nil {
			splitWell(t, m, int(at), d.loss != nil || d.parts != nil, tokens.End)
			return
		}
		if m.skip != "" {
			if len(m.tokens) > 0 && m.skip != plan.SkipMasked || m.skip == plan.SkipLong &&
				(at == 0 || c.MaxTokens.Do != runconfig.MaxDrop) {
				t.Fatalf("%+v", m)
			}
			return
		}
		sum, n := 0, len(m.tokens)
		for i, run := range m.loss {
			if sum += int(run); run < 0 || run == 0 && i > 0 {
				t.Fatalf("runs %v", m.loss)
			}
		}
		if m.loss != nil && (len(m.loss) < 2 || sum != n) {
			t.Fatalf("runs %v of %d tokens", m.loss, n)
		}
		for _, id := range m.tokens {
			if id < 0 || int(id) >= tokens.VocabSize {
				t.Fatalf("id %d", id)
			}
		}
		if m.tokens[0] != bosToken || m.cut != (m.tokens[n-1] != tokens.End) && !m.cut {
			t.Fatalf("%+v", m)
		}
		if m.cut && (at == 0 || c.MaxTokens.Do != runconfig.MaxCut || n > int(at)+1+sentinelCount && kind&16 == 0) {
			t.Fatalf("%+v with a limit of %d", m, at)
		}
		if kind&16 == 0 && kind&3 == 0 && !m.cut && n != len(data)+2 && n != len(data)+2+sentinelCount && data[0] != 1 {
			t.Fatalf("%d bytes give %d tokens", len(data), n)
		}
	})
}

func TestTransform_RefusesInvalidTokens(t *testing.T) {
	for want, c := range map[string]runconfig.Documents{
		`documents.bos: "auto": want a token id`: {BOS: runconfig.TokenAuto},
		`documents.bos: "9999": want a token id`: {BOS: "9999"},
		`documents.fim.tokens.middle: "<m>": want a token id below`: {FIM: runconfig.FIM{Rate: 1,
			Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "<m>", Suffix: "3"}}},
	} {
		if _, err := newTransform(byteTokenizing(c, 1), maxTokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// BenchmarkTransform measures transforming and tokenizing texts of about 4,000 characters; "off" is tokenizing alone.
func BenchmarkTransform(b *testing.B) {
	var text []byte
	for i := 0; len(text) < 4000; i++ {
		text = append(text, strings.Repeat("func f(x int) { return x }\n", i%3)+"it has words, and more of them\n"...)
	}
	for name, c := range map[string]runconfig.Documents{"off": {}, "bos": {BOS: "1"},
		"fim": {FIM: runconfig.FIM{Rate: 1, SPMRate: 0.5, Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "2",
			Suffix: "3"}}},
		"fim and limit": {FIM: runconfig.FIM{Rate: 1, SPMRate: 0.5, Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "2",
			Suffix: "3"}},
			MaxTokens: runconfig.MaxTokens{At: 1 << 20, Do: runconfig.MaxCut}},
	} {
		b.Run(name, func(b *testing.B) {
			tokens, _ := published(b, "gpt2", c)
			x := newTransforming(b, tokens)
			d := decodedDocument{text: text}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, failed, _ := x.apply(&d, x.encoder); failed != nil {
					b.Fatal(failed)
				}
			}
		})
	}
}

// spacing puts a space before every text, including parts of one.
type spacing struct{ upper }

func (s spacing) EncodePart(dst []int32, text []byte, first, last bool) []int32 {
	return s.upper.EncodePart(append(dst, ' '), text, first, last)
}

// If parts of a text cannot be tokenized separately, fill-in-the-middle cuts between tokens.
func TestFillInMiddle_CutsBetweenTokensIfNeeded(t *testing.T) {
	tokens := byteTokenizing(runconfig.Documents{FIM: fills(1, 0.5),
		MaxTokens: runconfig.MaxTokens{At: 20, Do: runconfig.MaxCut}},
		1)
	tokens.NewEncoder = func() Encoder { return spacing{} }
	x := newTransforming(t, tokens)
	for i := range 40 {
		text := strings.Repeat("x", i+1)
		m := x.make(t, decodedDocument{text: []byte(text)})
		own := m.tokens
		if !m.cut {
			own = own[:len(own)-1]
		}
		if content, _ := unfilled(t, own); !slices.Equal(content, spelled((" " + text)[:min(len(text)+1, 20)])) ||
			m.cut != (i > 18) {
			t.Errorf("%q becomes %v", text, m.tokens)
		}
	}
}
