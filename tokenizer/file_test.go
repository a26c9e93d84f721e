package tokenizer

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/format"
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

func TestFileOptions(t *testing.T) {
	ab, bc, abcID := int32(256), int32(257), int32(258)
	ids := func(x ...int32) []int32 { return x }
	cases := []struct {
		name   string
		change func(tokentest.Object)
		asText bool
		text   string
		want   []int32
	}{
		{"plain", func(tokentest.Object) {}, false, "abc", ids(abcID)},
		{"merges as pairs", func(f tokentest.Object) {
			f["model"].(tokentest.Object)["merges"] = []any{[]string{"b", "c"}, []string{"a", "b"}}
		}, false, "abc", ids('a', bc)},
		{"the later of two equal merges counts", func(f tokentest.Object) {
			f["model"].(tokentest.Object)["merges"] = []any{"a b", "b c", "a b"}
		}, false, "abc", ids('a', bc)},
		{"merges before words", func(f tokentest.Object) { f["model"].(tokentest.Object)["merges"] = []any{"b c"} }, false, "abc", ids('a', bc)},
		{"words before merges", func(f tokentest.Object) {
			f["model"].(tokentest.Object)["merges"] = []any{"b c"}
			f["model"].(tokentest.Object)["ignore_merges"] = true
		}, false, "abc abcc", ids(abcID, ' ', 'a', bc, 'c')},
		{"space before text", func(f tokentest.Object) { f["pre_tokenizer"].(tokentest.Object)["add_prefix_space"] = true }, false, "ab", ids(259)},
		{"space is there", func(f tokentest.Object) { f["pre_tokenizer"].(tokentest.Object)["add_prefix_space"] = true }, false, " ab", ids(259)},
		{"added token with an id the vocabulary lacks", func(f tokentest.Object) {
			f["added_tokens"] = []any{tokentest.Added(9999, "<x>")}
		}, false, "ab<x>", ids(ab, 263)},
		{"added token of the vocabulary", func(f tokentest.Object) { f["added_tokens"] = []any{tokentest.Added(0, "bc")} }, false, "abc", ids('a', bc)},
		{"longest of the leftmost", func(f tokentest.Object) {
			f["added_tokens"] = []any{tokentest.Added(0, "<x"), tokentest.Added(0, "<x>>"), tokentest.Added(0, "x>")}
		}, false, "<x>>x><x", ids(264, 265, 263)},
		{"those of the text as it is come first", func(f tokentest.Object) {
			f["added_tokens"] = []any{tokentest.Added(0, "<x>y", "normalized"), tokentest.Added(0, "x")}
		}, false, "<x>y", ids('<', 'x', '>', 'y')},
		{"special token", func(f tokentest.Object) { f["added_tokens"] = []any{tokentest.Added(0, "ab", "special")} }, false, "abc", ids(ab, 'c')},
		{"special token as text", func(f tokentest.Object) { f["added_tokens"] = []any{tokentest.Added(0, "ab", "special")} }, true, "abc", ids(abcID)},
		{"a skipped special token hides what is in it", func(f tokentest.Object) {
			f["added_tokens"] = []any{tokentest.Added(0, "<<b", "special"), tokentest.Added(0, "b<")}
		}, true, "<<b<b<", ids('<', '<', 'b', '<', 264)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := tokentest.SmallFile(tokentest.ABC...)
			c.change(f)
			m := mustLoadFile(t, f, Options{SpecialAsText: c.asText})
			if got := m.NewEncoder().Encode(nil, []byte(c.text)); !slices.Equal(got, c.want) {
				t.Errorf("%q gives %v, want %v", c.text, got, c.want)
			}
		})
	}
}

func TestFingerprintOfFiles(t *testing.T) {
	plain := mustLoadFile(t, tokentest.SmallFile(tokentest.ABC...), Options{}).Fingerprint()
	same := tokentest.SmallFile(tokentest.ABC...)
	same["model"].(tokentest.Object)["merges"] = func() (pairs []any) {
		for _, m := range tokentest.ABC {
			pairs = append(pairs, []string{tokentest.Spell(m[0]), tokentest.Spell(m[1])})
		}
		return pairs
	}()
	same["post_processor"] = tokentest.Object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true}
	same["model"].(tokentest.Object)["vocab"].(tokentest.Object)["zz"] = 5000 // nothing reaches it
	if got := mustLoadFile(t, same, Options{}).Fingerprint(); got != plain {
		t.Errorf("another spelling of the file has fingerprint %s, want %s", got, plain)
	}
	seen := map[string]string{plain: "plain"}
	for name, change := range map[string]func(tokentest.Object){
		"merges in another order": func(f tokentest.Object) { slices.Reverse(f["model"].(tokentest.Object)["merges"].([]any)) },
		"one merge less":          func(f tokentest.Object) { m := f["model"].(tokentest.Object); m["merges"] = m["merges"].([]any)[1:] },
		"words before merges": func(f tokentest.Object) {
			f["model"].(tokentest.Object)["merges"] = []any{}
			f["model"].(tokentest.Object)["ignore_merges"] = true
		},
		"space before text": func(f tokentest.Object) { f["pre_tokenizer"].(tokentest.Object)["add_prefix_space"] = true },
		"added":             func(f tokentest.Object) { f["added_tokens"] = []any{tokentest.Added(0, "<x>")} },
		"added special":     func(f tokentest.Object) { f["added_tokens"] = []any{tokentest.Added(0, "<x>", "special")} },
		"added normalized":  func(f tokentest.Object) { f["added_tokens"] = []any{tokentest.Added(0, "<x>", "normalized")} },
	} {
		f := tokentest.SmallFile(tokentest.ABC...)
		change(f)
		got := mustLoadFile(t, f, Options{}).Fingerprint()
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[got] = name
	}
}

func TestRefusedFiles(t *testing.T) {
	set := func(path string, v any) func(tokentest.Object) {
		return func(f tokentest.Object) {
			keys := strings.Split(path, ".")
			for _, k := range keys[:len(keys)-1] {
				f = f[k].(tokentest.Object)
			}
			f[keys[len(keys)-1]] = v
		}
	}
	for name, c := range map[string]struct {
		change func(tokentest.Object)
		says   string
	}{
		"normalizer":       {set("normalizer", tokentest.Object{"type": "Lowercase"}), `normalizer {"type":"Lowercase"}`},
		"long replacement": {set("normalizer", tokentest.Replacing("a", strings.Repeat("b", 100_000))), "up to 100000 times as long"},
		"replacements of replacements": {set("normalizer", tokentest.Object{"type": "Sequence", "normalizers": []any{
			tokentest.Replacing("a", "bbbbbbbbb"), tokentest.Replacing("b", "aaaaaaaaa")}}), "up to 81 times as long"},
		"long prefix":         {set("normalizer", tokentest.Object{"type": "Prepend", "prepend": strings.Repeat("b", 100)}), "up to 101 times as long"},
		"model type":          {set("model.type", "Unigram"), `model type "Unigram"`},
		"dropout":             {set("model.dropout", 0.1), "model dropout 0.1"},
		"suffix":              {set("model.end_of_word_suffix", "</w>"), "end_of_word_suffix"},
		"prefix":              {set("model.continuing_subword_prefix", "##"), "continuing_subword_prefix"},
		"option is an object": {set("model.dropout", tokentest.Object{}), "dropout {}"},
		"ignore_merges":       {set("model.ignore_merges", "yes"), "ignore_merges"},
		"truncation":          {set("truncation", tokentest.Object{"max_length": 3}), "truncation"},
		"padding":             {set("padding", tokentest.Object{"strategy": "BatchLongest"}), "padding"},
	} {
		t.Run(name, func(t *testing.T) {
			f := tokentest.SmallFile(tokentest.ABC...)
			c.change(f)
			_, err := loadFile(t, f, Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), format.Advice) {
				t.Errorf("error %v, want one that says %q and what to do", err, c.says)
			}
		})
	}
}

func TestMalformedFiles(t *testing.T) {
	const addedX = `{"id":0,"content":"<x>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}`
	edit := func(change func(model tokentest.Object)) string {
		f := tokentest.SmallFile(tokentest.ABC...)
		change(f["model"].(tokentest.Object))
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	whole := edit(func(tokentest.Object) {})
	for name, c := range map[string]struct{ data, says string }{
		"empty":                         {"", "EOF"},
		"null":                          {"null", "null"},
		"truncated":                     {whole[:len(whole)/2], "unexpected EOF"},
		"more behind":                   {whole + "{}", "behind the object"},
		"deep":                          {`{"model":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", "depth"},
		"list":                          {"[]", "want an object"},
		"no vocab":                      {edit(func(m tokentest.Object) { delete(m, "vocab") }), "vocab"},
		"vocab is a list":               {edit(func(m tokentest.Object) { m["vocab"] = []int{1} }), "vocab"},
		"no merges":                     {edit(func(m tokentest.Object) { delete(m, "merges") }), "merges"},
		"huge id":                       {edit(func(m tokentest.Object) { m["vocab"].(tokentest.Object)["zz"] = 1e18 }), `"zz"`},
		"negative id":                   {edit(func(m tokentest.Object) { m["vocab"].(tokentest.Object)["zz"] = -1 }), `"zz"`},
		"fraction":                      {edit(func(m tokentest.Object) { m["vocab"].(tokentest.Object)["zz"] = 1.5 }), `"zz"`},
		"id is a string":                {edit(func(m tokentest.Object) { m["vocab"].(tokentest.Object)["zz"] = "1" }), `"zz"`},
		"duplicate id":                  {edit(func(m tokentest.Object) { m["vocab"].(tokentest.Object)["zz"] = 97 }), `"a" and "zz" both have id 97`},
		"empty token":                   {edit(func(m tokentest.Object) { m["vocab"].(tokentest.Object)[""] = 500 }), "empty token"},
		"byte missing":                  {edit(func(m tokentest.Object) { delete(m["vocab"].(tokentest.Object), "z") }), "0x7a"},
		"unknown part":                  {edit(func(m tokentest.Object) { m["merges"] = []any{"a zz"} }), `merge 0 "a" + "zz"`},
		"unknown result":                {edit(func(m tokentest.Object) { m["merges"] = []any{"z z"} }), `merge 0 "z" + "z"`},
		"merge of one":                  {edit(func(m tokentest.Object) { m["merges"] = []any{"ab"} }), "merge 0"},
		"merge of three":                {edit(func(m tokentest.Object) { m["merges"] = []any{"a b c"} }), "merge 0"},
		"merge list of one":             {edit(func(m tokentest.Object) { m["merges"] = []any{[]any{"a"}} }), "merge 0"},
		"merge of numbers":              {edit(func(m tokentest.Object) { m["merges"] = []any{[]any{1, 2}} }), "merge 0"},
		"merges in two spellings":       {edit(func(m tokentest.Object) { m["merges"] = []any{"a b", []any{"ab", "c"}} }), "merge 1"},
		"merges in two spellings again": {edit(func(m tokentest.Object) { m["merges"] = []any{[]any{"a", "b"}, "ab c"} }), "merge 1"},
		"merge is an object":            {edit(func(m tokentest.Object) { m["merges"] = []any{tokentest.Object{}} }), "merge 0"},
		"added on a used id": {strings.Replace(strings.Replace(whole, `"added_tokens":[]`, `"added_tokens":[`+addedX+`]`, 1),
			`"z":122`, `"z":263`, 1), "id 263"},
		"added twice": {strings.Replace(whole, `"added_tokens":[]`, `"added_tokens":[`+addedX+`,`+strings.Replace(addedX, `"special":false`, `"special":true`, 1)+`]`, 1), "listed twice"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokenizer.json")
			if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(path, Options{}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
	if _, err := Load("meta-llama/Llama-3.1-8B", Options{}); err == nil || !strings.Contains(err.Error(), "tokenizer.json that comes with it") {
		t.Errorf("a model of a hub: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent"), Options{}); err == nil || !strings.Contains(err.Error(), "gpt2") {
		t.Errorf("an absent file: %v", err)
	}
}

func TestRandomModelsAgreeWithNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	units := []string{"a", "b", "c", "ab", " ", "\n", "1", "'s", "中", "\u0301", "/", "\xe4\xb8", "ccc"}
	for k := range 24 {
		jumbled := k%2 == 1
		f := tokentest.SmallFile(tokentest.RandomMerges(r, 60, jumbled)...)
		f["pre_tokenizer"] = tokentest.PatternFor(pretokenize.Families[k%len(pretokenize.Families)].Parts...)
		f["model"].(tokentest.Object)["ignore_merges"] = k%3 == 0
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
		file := tokentest.SmallFile(tokentest.RandomMerges(r, 40, k%2 == 1)...)
		file["pre_tokenizer"] = tokentest.PatternFor(pretokenize.Families[k%len(pretokenize.Families)].Parts...)
		data, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		d, err := definition.FromJSON(bytes.NewReader(data))
		if err != nil {
			f.Fatal(err)
		}
		m, err := compile(d, Options{})
		if err != nil {
			f.Fatal(err)
		}
		encoders = append(encoders, m.NewEncoder())
		definitions = append(definitions, newNaive(file, m.def.Family.Name))
	}
	f.Add([]byte("abcab'S  11\n\n中\xe4\xb8 //"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 400 {
			return // the naive encoder is slow
		}
		for k, e := range encoders {
			compareWithNaive(t, definitions[k], e, norm.AppendValid(nil, text))
		}
	})
}

func FuzzLoad(f *testing.F) {
	for _, change := range []func(tokentest.Object){
		func(tokentest.Object) {},
		func(o tokentest.Object) {
			o["added_tokens"] = []any{tokentest.Added(3, "<x>", "special"), tokentest.Added(1, "ab", "normalized")}
		},
		func(o tokentest.Object) {
			o["pre_tokenizer"] = tokentest.PatternFor(pretokenize.Families[len(pretokenize.Families)-1].Parts...)
			o["model"].(tokentest.Object)["ignore_merges"] = true
		},
	} {
		file := tokentest.SmallFile(tokentest.ABC...)
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
		m, err := compile(d, Options{})
		if err != nil {
			return
		}
		text := []byte("abcab<x> it's 12 \n\n中")
		ids := m.NewEncoder().Encode(nil, text)
		back, err := m.Decode(nil, ids)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(back), string(text)) { // a space may be before it
			t.Fatalf("%q decodes to %q", text, back)
		}
	})
}
