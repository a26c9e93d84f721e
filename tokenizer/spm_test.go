package tokenizer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/internal/testscale"
	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/tokentest"
)

// spmFile implements the definition of a SentencePiece-style tokenizer.json directly, without optimization.
type spmFile struct {
	prepend, replace string // normalizers: prepended text, and the replacement of spaces; "" for none
	prependLast      bool
	mark, scheme     string // pre-tokenizer Metaspace; "" for none
	split            bool
	unk              string
	fuse, fallback   bool
	ignoreMerges     bool
	vocab            map[string]int
	merges           [][2]string
}

func (f *spmFile) object() object {
	normalizers := []any{}
	if f.replace != "" {
		normalizers = append(normalizers, object{"type": "Replace", "pattern": object{"String": " "}, "content": f.replace})
	}
	if f.prepend != "" {
		normalizers = slices.Insert(normalizers, len(normalizers)*b2i(f.prependLast),
			any(object{"type": "Prepend", "prepend": f.prepend}))
	}
	model := object{
		"type": "BPE", "vocab": f.vocab, "merges": append([][2]string{}, f.merges...), "fuse_unk": f.fuse,
		"byte_fallback": f.fallback, "ignore_merges": f.ignoreMerges,
	}
	if f.unk != "" {
		model["unk_token"] = f.unk
	}
	file := object{"version": "1.0", "normalizer": object{"type": "Sequence", "normalizers": normalizers}, "model": model}
	if f.mark != "" {
		file["pre_tokenizer"] = object{"type": "Metaspace", "replacement": f.mark, "prepend_scheme": f.scheme,
			"split": f.split}
	}
	return file
}

func (f *spmFile) String() string {
	show := *f
	show.vocab = map[string]int{}
	for token, id := range f.vocab {
		if !strings.HasPrefix(token, "<0x") {
			show.vocab[token] = id
		}
	}
	type plain spmFile
	return fmt.Sprintf("%+v", plain(show))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ids encodes valid UTF-8.
func (f *spmFile) ids(text string) (ids []int32) {
	if text == "" {
		return nil
	}
	if !f.prependLast {
		text = f.prepend + text
	}
	if f.replace != "" {
		text = strings.ReplaceAll(text, " ", f.replace)
	}
	if f.prependLast {
		text = f.prepend + text
	}
	words := []string{text}
	if f.mark != "" {
		text = strings.ReplaceAll(text, " ", f.mark)
		if f.scheme != "never" && !strings.HasPrefix(text, f.mark) {
			text = f.mark + text
		}
		words = []string{text}
		if f.split {
			words = nil
			for text != "" {
				_, n := utf8.DecodeRuneInString(text)
				if k := strings.Index(text[n:], f.mark); k >= 0 {
					n += k
				} else {
					n = len(text)
				}
				words = append(words, text[:n])
				text = text[n:]
			}
		}
	}
	for _, w := range words {
		ids = append(ids, f.word(w)...)
	}
	return ids
}

func (f *spmFile) word(w string) (ids []int32) {
	if id, ok := f.vocab[w]; ok && f.ignoreMerges {
		return []int32{int32(id)}
	}
	waits := false
	unk := func() {
		if waits {
			ids = append(ids, int32(f.vocab[f.unk]))
		}
		waits = false
	}
	for _, r := range w {
		char := string(r)
		if id, ok := f.vocab[char]; ok {
			unk()
			ids = append(ids, int32(id))
			continue
		}
		var bytes []int32
		for _, b := range []byte(char) {
			if id, ok := f.vocab[fmt.Sprintf("<0x%02X>", b)]; ok {
				bytes = append(bytes, int32(id))
			}
		}
		if f.fallback && len(bytes) == len(char) {
			ids = append(ids, bytes...)
			continue
		}
		if f.unk != "" {
			if !f.fuse {
				unk()
			}
			waits = true
		}
	}
	unk()
	rank := map[[2]int32]int{}
	for r, m := range f.merges {
		rank[[2]int32{int32(f.vocab[m[0]]), int32(f.vocab[m[1]])}] = r
	}
	for {
		best, at := len(f.merges), -1
		for i := 0; i+1 < len(ids); i++ {
			if r, ok := rank[[2]int32{ids[i], ids[i+1]}]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return ids
		}
		m := f.merges[best]
		ids = append(append(ids[:at:at], int32(f.vocab[m[0]+m[1]])), ids[at+2:]...)
	}
}

// spmAlphabet has the elements of small vocabularies and texts.
var spmAlphabet = []string{"a", "b", "c", "▁", " ", "\n", ",", "é", "中", "文", "😀", "<", "0x0A>", "\u0301", "_", "\t"}

// randomSpm returns a random file with few characters, so that merges interact in many ways.
func randomSpm(r *rand.Rand) *spmFile {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	coin := func() bool { return r.IntN(2) == 0 }
	f := &spmFile{
		prepend: pick("", "▁", " ", "_x"), replace: pick("", "▁", "▁", "_"), prependLast: coin(),
		mark: pick("", "", "▁", "▁", "_", " "), scheme: pick("always", "never", "first"), split: coin(),
		unk: pick("", "<unk>", "a", "▁"), fuse: coin(), fallback: coin(), ignoreMerges: r.IntN(4) == 0,
		vocab: map[string]int{},
	}
	if f.scheme == "first" {
		f.prepend = ""
	}
	next := r.IntN(3)
	add := func(token string) {
		if _, ok := f.vocab[token]; !ok {
			f.vocab[token] = next
			next += 1 + r.IntN(40)/39
		}
	}
	if f.unk != "" {
		add(f.unk)
	}
	var tokens []string
	for _, c := range spmAlphabet {
		if r.IntN(8) > 0 && utf8.RuneCountInString(c) == 1 {
			add(c)
			tokens = append(tokens, c)
		}
	}
	if f.fallback {
		missing := r.IntN(3)
		for b := range 256 {
			if missing == 0 || b != 0xE4 && b != 0xCC {
				add(fmt.Sprintf("<0x%02X>", b))
			}
		}
		if r.IntN(6) == 0 {
			tokens = append(tokens, "<0x0A>", "<0xE4>")
			add("<0x0A>")
			add("<0xE4>")
		}
	}
	if r.IntN(6) == 0 && f.unk != "" {
		tokens = append(tokens, f.unk)
	}
	for range r.IntN(40) {
		if len(tokens) == 0 {
			break
		}
		a, b := pick(tokens...), pick(tokens...)
		if len(a)+len(b) > 24 {
			continue
		}
		add(a + b)
		f.merges = append(f.merges, [2]string{a, b})
		tokens = append(tokens, a+b)
		for k := 1; k < len(a+b); k++ { // another way to make it
			_, okA := f.vocab[(a + b)[:k]]
			_, okB := f.vocab[(a + b)[k:]]
			if okA && okB && r.IntN(3) == 0 {
				f.merges = append(f.merges, [2]string{(a + b)[:k], (a + b)[k:]})
			}
		}
	}
	if coin() {
		r.Shuffle(len(f.merges), func(i, j int) { f.merges[i], f.merges[j] = f.merges[j], f.merges[i] })
	}
	for range r.IntN(4) { // tokens that no merge makes
		add(pick(spmAlphabet...) + pick(spmAlphabet...))
	}
	return f
}

func randomSpmText(r *rand.Rand) string {
	var b strings.Builder
	narrow := spmAlphabet
	if r.IntN(2) == 0 {
		k := r.IntN(len(spmAlphabet))
		narrow = spmAlphabet[k:min(k+3, len(spmAlphabet))]
	}
	longest := 1 + r.IntN(2)*r.IntN(30)
	for range r.IntN(30 * (1 + r.IntN(6))) {
		b.WriteString(strings.Repeat(narrow[r.IntN(len(narrow))], 1+r.IntN(longest)))
	}
	return b.String()
}

func compareSpm(t *testing.T, r *rand.Rand) {
	f := randomSpm(r)
	m := mustLoadFile(t, f.object(), Options{})
	d, err := definition.FromJSON(bytes.NewReader(tokentest.JSON(t, f.object())))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := assemble(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	encoders := []*Encoder{m.NewEncoder(), plain.NewEncoder()}
	for range 20 {
		text := randomSpmText(r)
		want := f.ids(text)
		for _, e := range encoders {
			for range 2 {
				if got := e.Encode(nil, []byte(text)); !slices.Equal(got, want) {
					t.Fatalf("%q gives %v, want %v, by %s", text, got, want, f)
				}
			}
		}
	}
}

func TestSentencePiece_MatchesDefinition(t *testing.T) {
	for seed := range testscale.Of[uint64](15, 150) {
		compareSpm(t, rand.New(rand.NewPCG(seed, 7)))
	}
}

func TestSentencePiece_VocabularyWithoutCharacters(t *testing.T) {
	for _, f := range []spmFile{{vocab: map[string]int{}}, {vocab: map[string]int{"ab": 0}},
		{vocab: map[string]int{"<0x61>": 3}, fallback: true}} {
		m := mustLoadFile(t, f.object(), Options{})
		if got, want := m.NewEncoder().Encode(nil, []byte("ab a")), f.ids("ab a"); !slices.Equal(got, want) {
			t.Errorf("%v are the ids, want %v, by %s", got, want, &f)
		}
	}
}

func FuzzSentencePiece(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(448), uint64(493)) // words of which nothing is left to merge
	f.Add(uint64(118), uint64(491)) // __ becomes ___ before the next __ is made
	f.Fuzz(func(t *testing.T, a, b uint64) { compareSpm(t, rand.New(rand.NewPCG(a, b))) })
}
