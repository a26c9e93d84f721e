package tokenizer

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
)

// load keeps the built-in models for all tests, because they are immutable.
var load = func() func(testing.TB, string) *Model {
	var mu sync.Mutex
	models := map[string]*Model{}
	return func(t testing.TB, name string) *Model {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if models[name] == nil {
			m, err := Load(name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			models[name] = m
		}
		return models[name]
	}
}()

// The expected ids are those of tiktoken 0.14.
func TestEncode_KnownIDs(t *testing.T) {
	const text = "Hello, world! it's 12345  \n\n  x<|endoftext|>é 中文"
	for name, want := range map[string][]int32{
		"gpt2": {15496, 11, 995, 0, 340, 338, 17031, 2231, 220, 220, 628, 220, 2124, 50256, 2634, 220, 40792, 23877, 229},
		"cl100k_base": {
			9906, 11, 1917, 0, 433, 596, 220, 4513, 1774, 19124, 220, 865, 100257, 978, 73958, 17161,
		},
		"o200k_base": {13225, 11, 2375, 0, 4275, 220, 7633, 2548, 11691, 220, 1215, 199999, 377, 83711},
	} {
		m := load(t, name)
		got := m.NewEncoder().Encode(nil, []byte(text))
		if !slices.Equal(got, want) {
			t.Errorf("%s: ids %v, want %v", name, got, want)
		}
		if back, err := m.Decode(nil, got); err != nil || string(back) != text {
			t.Errorf("%s: decoded %q, %v", name, back, err)
		}
	}
}

func TestModel_VocabSizeAndEndToken(t *testing.T) {
	for name, want := range map[string]struct {
		vocab int
		end   int32
	}{"gpt2": {50257, 50256}, "cl100k_base": {100277, 100257}, "o200k_base": {200019, 199999}} {
		m := load(t, name)
		end, ok := m.EndOfText()
		if m.Name() != name || m.VocabSize() != want.vocab || !ok || end.ID != want.end {
			t.Errorf("%s: name %q, %d ids, end %d %t", name, m.Name(), m.VocabSize(), end.ID, ok)
		}
		if m.words.HasWholeWords() {
			t.Errorf("%s: some tokens are not what merging makes of them", name)
		}
	}
	m := load(t, "cl100k_base")
	for _, ids := range [][]int32{{0, -1}, {0, 100277}, {0, 100256}} {
		if _, err := m.Decode(nil, ids); err == nil || !strings.Contains(err.Error(), "position 1") {
			t.Errorf("decode %v: %v", ids, err)
		}
	}
}

func TestFingerprint_CoversOptionsAndModel(t *testing.T) {
	asText, err := Load("gpt2", Options{SpecialAsText: true})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load("gpt2", Options{})
	if err != nil {
		t.Fatal(err)
	}
	gpt2 := load(t, "gpt2")
	if again.Fingerprint() != gpt2.Fingerprint() || !strings.HasPrefix(gpt2.Fingerprint(), "sha256:") {
		t.Errorf("fingerprints %s and %s of one tokenizer", again.Fingerprint(), gpt2.Fingerprint())
	}
	if asText.Fingerprint() == gpt2.Fingerprint() || load(t, "cl100k_base").Fingerprint() == gpt2.Fingerprint() {
		t.Error("different tokenizers have one fingerprint")
	}
	text := []byte("a<|endoftext|>b")
	if n := len(asText.NewEncoder().Encode(nil, text)); n == len(gpt2.NewEncoder().Encode(nil, text)) {
		t.Errorf("special token as text is %d ids", n)
	}
}

// compareWithNaive fails unless the encoder, both with and without cached words, agrees with the definition.
func compareWithNaive(t *testing.T, n *naiveModel, e *Encoder, text []byte) {
	t.Helper()
	want := n.ids(bytes.ToValidUTF8(text, []byte("\ufffd")))
	for range 2 {
		if got := e.Encode(nil, text); !slices.Equal(got, want) {
			t.Fatalf("%s: %q gives %v, want %v", e.model.Name(), text, got, want)
		}
	}
}

func TestEncode_AllocatesNothing(t *testing.T) {
	m := load(t, "cl100k_base")
	e := m.NewEncoder()
	text := []byte(strings.Repeat("func (e *Encoder) Encode(dst []int32) <|endoftext|> 中文字符 \xff ", 200) +
		strings.Repeat("x", 5000))
	ids := e.Encode(nil, text)
	if n := testing.AllocsPerRun(10, func() { ids = e.Encode(ids[:0], text) }); n > 0 {
		t.Errorf("%g allocations a document", n)
	}
}

// Long words have separate code paths in the encoder: the ids must decode to the text.
func TestEncode_LongWordsRoundTrip(t *testing.T) {
	for _, name := range Builtin() {
		m := load(t, name)
		e := m.NewEncoder()
		for i, unit := range []string{"a", " ", "\n", "1", "'", "中", "👩‍🔬", "e\u0301", "abc", "文字中"} {
			size := 1 << 18
			if i == 0 {
				size = 1<<16 + 1<<18
			}
			text := []byte(strings.Repeat(unit, size/len(unit)))
			ids := e.Encode(nil, text)
			if back, err := m.Decode(nil, ids); err != nil || !bytes.Equal(back, text) {
				t.Errorf("%s: %d times %q does not decode to itself: %v", name, size/len(unit), unit, err)
			}
		}
	}
}
