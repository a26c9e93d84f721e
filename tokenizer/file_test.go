package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

func loadFile(t *testing.T, file any, o Options) (*Model, error) {
	t.Helper()
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, o)
}

func mustLoadFile(t *testing.T, file any, o Options) *Model {
	t.Helper()
	m, err := loadFile(t, file, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTokenizerFile_Options(t *testing.T) {
	ab, bc, abcID := int32(256), int32(257), int32(258)
	ids := func(x ...int32) []int32 { return x }
	cases := []struct {
		name   string
		change func(object)
		asText bool
		text   string
		want   []int32
	}{
		{"plain", func(object) {}, false, "abc", ids(abcID)},
		{"merges as pairs", func(f object) {
			f["model"].(object)["merges"] = []any{[]string{"b", "c"}, []string{"a", "b"}}
		}, false, "abc", ids('a', bc)},
		{"the later of two equal merges counts", func(f object) {
			f["model"].(object)["merges"] = []any{"a b", "b c", "a b"}
		}, false, "abc", ids('a', bc)},
		{"merges before words", func(f object) { f["model"].(object)["merges"] = []any{"b c"} }, false, "abc", ids('a', bc)},
		{"words before merges", func(f object) {
			f["model"].(object)["merges"] = []any{"b c"}
			f["model"].(object)["ignore_merges"] = true
		}, false, "abc abcc", ids(abcID, ' ', 'a', bc, 'c')},
		{"space before text", func(f object) {
			f["pre_tokenizer"].(object)["add_prefix_space"] = true
		}, false, "ab", ids(259)},
		{"space is there", func(f object) { f["pre_tokenizer"].(object)["add_prefix_space"] = true }, false, " ab", ids(259)},
		{"added token with an id the vocabulary lacks", func(f object) {
			f["added_tokens"] = []any{addedToken(9999, "<x>")}
		}, false, "ab<x>", ids(ab, 263)},
		{"added token of the vocabulary", func(f object) {
			f["added_tokens"] = []any{addedToken(0, "bc")}
		}, false, "abc", ids('a', bc)},
		{"longest of the leftmost", func(f object) {
			f["added_tokens"] = []any{addedToken(0, "<x"), addedToken(0, "<x>>"), addedToken(0, "x>")}
		}, false, "<x>>x><x", ids(264, 265, 263)},
		{"those of the text as it is come first", func(f object) {
			f["added_tokens"] = []any{addedToken(0, "<x>y", "normalized"), addedToken(0, "x")}
		}, false, "<x>y", ids('<', 'x', '>', 'y')},
		{"special token", func(f object) {
			f["added_tokens"] = []any{addedToken(0, "ab", "special")}
		}, false, "abc", ids(ab, 'c')},
		{"special token as text", func(f object) {
			f["added_tokens"] = []any{addedToken(0, "ab", "special")}
		}, true, "abc", ids(abcID)},
		{"a skipped special token hides what is in it", func(f object) {
			f["added_tokens"] = []any{addedToken(0, "<<b", "special"), addedToken(0, "b<")}
		}, true, "<<b<b<", ids('<', '<', 'b', '<', 264)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := smallFile(tokentest.ABC...)
			c.change(f)
			m := mustLoadFile(t, f, Options{SpecialAsText: c.asText})
			if got := m.NewEncoder().Encode(nil, []byte(c.text)); !slices.Equal(got, c.want) {
				t.Errorf("%q gives %v, want %v", c.text, got, c.want)
			}
		})
	}
}

func TestFingerprint_OfFilesIgnoresSpelling(t *testing.T) {
	plain := mustLoadFile(t, smallFile(tokentest.ABC...), Options{}).Fingerprint()
	same := smallFile(tokentest.ABC...)
	same["model"].(object)["merges"] = func() (pairs []any) {
		for _, m := range tokentest.ABC {
			pairs = append(pairs, []string{tokentest.Spell(m[0]), tokentest.Spell(m[1])})
		}
		return pairs
	}()
	same["post_processor"] = object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true}
	same["model"].(object)["vocab"].(object)["zz"] = 5000 // no merge makes it
	if got := mustLoadFile(t, same, Options{}).Fingerprint(); got != plain {
		t.Errorf("another spelling of the file has fingerprint %s, want %s", got, plain)
	}
	seen := map[string]string{plain: "plain"}
	for name, change := range map[string]func(object){
		"merges in another order": func(f object) { slices.Reverse(f["model"].(object)["merges"].([]any)) },
		"one merge less":          func(f object) { m := f["model"].(object); m["merges"] = m["merges"].([]any)[1:] },
		"words before merges": func(f object) {
			f["model"].(object)["merges"] = []any{}
			f["model"].(object)["ignore_merges"] = true
		},
		"space before text": func(f object) { f["pre_tokenizer"].(object)["add_prefix_space"] = true },
		"added":             func(f object) { f["added_tokens"] = []any{addedToken(0, "<x>")} },
		"added special":     func(f object) { f["added_tokens"] = []any{addedToken(0, "<x>", "special")} },
		"added normalized":  func(f object) { f["added_tokens"] = []any{addedToken(0, "<x>", "normalized")} },
	} {
		f := smallFile(tokentest.ABC...)
		change(f)
		got := mustLoadFile(t, f, Options{}).Fingerprint()
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[got] = name
	}
}

// A space before each piece shows where a text is split: the ids are those of bytes.
func TestDecode_SpaceMarksPieces(t *testing.T) {
	f := smallFile()
	digits := object{"type": "Digits", "individual_digits": false}
	f["pre_tokenizer"] = inSequence(digits, byteLevel(true, true), digits)
	m := mustLoadFile(t, f, Options{})
	got, err := m.Decode(nil, m.NewEncoder().Encode(nil, []byte("ab12 c 3")))
	if want := " ab 12 c  3"; err != nil || string(got) != want {
		t.Errorf("pieces %q, %v, want %q", got, err, want)
	}
}

func TestEncode_RandomModelsMatchNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	units := []string{"a", "b", "c", "ab", " ", "\n", "1", "'s", "中", "\u0301", "/", "\xe4\xb8", "ccc"}
	for k := range 24 {
		jumbled := k%2 == 1
		f := smallFile(tokentest.RandomMerges(r, 60, jumbled)...)
		f["pre_tokenizer"] = patternFor(pretokenize.Families[k%len(pretokenize.Families)].Parts...)
		f["model"].(object)["ignore_merges"] = k%3 == 0
		m := mustLoadFile(t, f, Options{})
		n, e := newNaive(f, m.def.Family.Name), m.NewEncoder()
		for range 60 {
			var text []byte
			for range r.IntN(30) {
				text = append(text, strings.Repeat(units[r.IntN(len(units))], 1+r.IntN(12))...)
			}
			compareWithNaive(t, n, e, norm.AppendValid(nil, text))
		}
	}
}

func FuzzEncode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	var encoders []*Encoder
	var definitions []*naiveModel
	for k := range 8 {
		file := smallFile(tokentest.RandomMerges(r, 40, k%2 == 1)...)
		file["pre_tokenizer"] = patternFor(pretokenize.Families[k%len(pretokenize.Families)].Parts...)
		data, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		d, err := definition.FromJSON(bytes.NewReader(data))
		if err != nil {
			f.Fatal(err)
		}
		m, err := newModel(d, Options{})
		if err != nil {
			f.Fatal(err)
		}
		encoders = append(encoders, m.NewEncoder())
		definitions = append(definitions, newNaive(file, m.def.Family.Name))
	}
	for k := range encoders {
		f.Add(uint8(k), []byte("abcab'S  11\n\n中\xe4\xb8 //"))
	}
	f.Fuzz(func(t *testing.T, of uint8, text []byte) { // a single encoder: all of them would take several times as long
		if len(text) > 100 {
			return // the naive encoder is slow
		}
		k := int(of) % len(encoders)
		compareWithNaive(t, definitions[k], encoders[k], norm.AppendValid(nil, text))
	})
}

func FuzzLoad(f *testing.F) {
	for _, change := range []func(object){
		func(object) {},
		func(o object) {
			o["added_tokens"] = []any{addedToken(3, "<x>", "special"), addedToken(1, "ab", "normalized")}
		},
		func(o object) {
			o["pre_tokenizer"] = patternFor(pretokenize.Families[len(pretokenize.Families)-1].Parts...)
			o["model"].(object)["ignore_merges"] = true
		},
	} {
		file := smallFile(tokentest.ABC...)
		change(file)
		data, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := definition.FromJSON(bytes.NewReader(data))
		if err != nil {
			return
		}
		m, err := newModel(d, Options{})
		if err != nil {
			return
		}
		text := []byte("abcab<x> it's 12 \n\n中")
		ids := m.NewEncoder().Encode(nil, text)
		back, err := m.Decode(nil, ids)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(back), string(text)) { // a space may precede it
			t.Fatalf("%q decodes to %q", text, back)
		}
	})
}

func TestRankFile_SpecialTokens(t *testing.T) {
	// xyz contains z's that no merge joins, so only the whole word becomes the token
	var all strings.Builder
	for b := range 256 {
		fmt.Fprintf(&all, "%s %d\n", tokentest.Base64(string([]byte{byte(b)})), b)
	}
	data := all.String() + tokentest.Base64("ab") + " 300\n" + tokentest.Base64("abc") + " 301\n" +
		tokentest.Base64("xyz") + " 302\n"
	path := filepath.Join(t.TempDir(), "x.tiktoken")
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(path, Options{Pattern: "llama3", SpecialTokens: []string{"<x>", "<a=b>=400", "<z>"}})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(m.NewEncoder().Encode(nil, []byte("abcab<x><a=b>xyz<z>1xyzz")))
	if want := "[301 300 303 400 302 401 49 120 121 122 122]"; got != want {
		t.Errorf("ids %s, want %s", got, want)
	}
}
