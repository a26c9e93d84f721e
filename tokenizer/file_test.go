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

	"loaderd/tokenizer/internal/norm"
)

// object is a JSON object.
type object = map[string]any

// spell writes bytes in the alphabet of a tokenizer.json.
func spell(text string) string {
	runes := map[byte]rune{}
	for r, b := range byteOfRune {
		runes[b] = r
	}
	var s strings.Builder
	for _, b := range []byte(text) {
		s.WriteRune(runes[b])
	}
	return s.String()
}

// smallFile is a tokenizer.json of all bytes and the given merges, whose results follow them in the vocabulary.
func smallFile(merges ...[2]string) object {
	vocab := object{}
	for b := range 256 {
		vocab[spell(string([]byte{byte(b)}))] = b
	}
	var list []any
	for _, m := range merges {
		if made := spell(m[0] + m[1]); vocab[made] == nil {
			vocab[made] = len(vocab)
		}
		list = append(list, spell(m[0])+" "+spell(m[1]))
	}
	return object{
		"version":       "1.0",
		"added_tokens":  []any{},
		"normalizer":    nil,
		"pre_tokenizer": object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"model":         object{"type": "BPE", "vocab": vocab, "merges": append([]any{}, list...)},
	}
}

func added(id int, content string, flags ...string) object {
	a := object{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}
	for _, f := range flags {
		a[f] = true
	}
	return a
}

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

var abc = [][2]string{{"a", "b"}, {"b", "c"}, {"ab", "c"}, {" ", "ab"}, {"bc", "bc"}, {"a", "a"}, {"aa", "aa"}}

func TestFileOptions(t *testing.T) {
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
		{"space before text", func(f object) { f["pre_tokenizer"].(object)["add_prefix_space"] = true }, false, "ab", ids(259)},
		{"space is there", func(f object) { f["pre_tokenizer"].(object)["add_prefix_space"] = true }, false, " ab", ids(259)},
		{"added token with an id the vocabulary lacks", func(f object) {
			f["added_tokens"] = []any{added(9999, "<x>")}
		}, false, "ab<x>", ids(ab, 263)},
		{"added token of the vocabulary", func(f object) { f["added_tokens"] = []any{added(0, "bc")} }, false, "abc", ids('a', bc)},
		{"longest of the leftmost", func(f object) {
			f["added_tokens"] = []any{added(0, "<x"), added(0, "<x>>"), added(0, "x>")}
		}, false, "<x>>x><x", ids(264, 265, 263)},
		{"those of the text as it is come first", func(f object) {
			f["added_tokens"] = []any{added(0, "<x>y", "normalized"), added(0, "x")}
		}, false, "<x>y", ids('<', 'x', '>', 'y')},
		{"special token", func(f object) { f["added_tokens"] = []any{added(0, "ab", "special")} }, false, "abc", ids(ab, 'c')},
		{"special token as text", func(f object) { f["added_tokens"] = []any{added(0, "ab", "special")} }, true, "abc", ids(abcID)},
		{"a skipped special token hides what is in it", func(f object) {
			f["added_tokens"] = []any{added(0, "<<b", "special"), added(0, "b<")}
		}, true, "<<b<b<", ids('<', '<', 'b', '<', 264)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := smallFile(abc...)
			c.change(f)
			m := mustLoadFile(t, f, Options{SpecialAsText: c.asText})
			if got := m.NewEncoder().Encode(nil, []byte(c.text)); !slices.Equal(got, c.want) {
				t.Errorf("%q gives %v, want %v", c.text, got, c.want)
			}
		})
	}
}

func TestFingerprintOfFiles(t *testing.T) {
	plain := mustLoadFile(t, smallFile(abc...), Options{}).Fingerprint()
	same := smallFile(abc...)
	same["model"].(object)["merges"] = func() (pairs []any) {
		for _, m := range abc {
			pairs = append(pairs, []string{spell(m[0]), spell(m[1])})
		}
		return pairs
	}()
	same["post_processor"] = object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true}
	same["model"].(object)["vocab"].(object)["zz"] = 5000 // nothing reaches it
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
		"added":             func(f object) { f["added_tokens"] = []any{added(0, "<x>")} },
		"added special":     func(f object) { f["added_tokens"] = []any{added(0, "<x>", "special")} },
		"added normalized":  func(f object) { f["added_tokens"] = []any{added(0, "<x>", "normalized")} },
	} {
		f := smallFile(abc...)
		change(f)
		got := mustLoadFile(t, f, Options{}).Fingerprint()
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[got] = name
	}
}

func replacing(from, to string) object {
	return object{"type": "Replace", "pattern": object{"String": from}, "content": to}
}

func TestRefusedFiles(t *testing.T) {
	set := func(path string, v any) func(object) {
		return func(f object) {
			keys := strings.Split(path, ".")
			for _, k := range keys[:len(keys)-1] {
				f = f[k].(object)
			}
			f[keys[len(keys)-1]] = v
		}
	}
	for name, c := range map[string]struct {
		change func(object)
		says   string
	}{
		"normalizer":       {set("normalizer", object{"type": "Lowercase"}), `normalizer {"type":"Lowercase"}`},
		"long replacement": {set("normalizer", replacing("a", strings.Repeat("b", 100_000))), "up to 100000 times as long"},
		"replacements of replacements": {set("normalizer", object{"type": "Sequence", "normalizers": []any{
			replacing("a", "bbbbbbbbb"), replacing("b", "aaaaaaaaa")}}), "up to 81 times as long"},
		"long prefix":         {set("normalizer", object{"type": "Prepend", "prepend": strings.Repeat("b", 100)}), "up to 101 times as long"},
		"model type":          {set("model.type", "Unigram"), `model type "Unigram"`},
		"dropout":             {set("model.dropout", 0.1), "model dropout 0.1"},
		"suffix":              {set("model.end_of_word_suffix", "</w>"), "end_of_word_suffix"},
		"prefix":              {set("model.continuing_subword_prefix", "##"), "continuing_subword_prefix"},
		"option is an object": {set("model.dropout", object{}), "dropout {}"},
		"ignore_merges":       {set("model.ignore_merges", "yes"), "ignore_merges"},
		"truncation":          {set("truncation", object{"max_length": 3}), "truncation"},
		"padding":             {set("padding", object{"strategy": "BatchLongest"}), "padding"},
	} {
		t.Run(name, func(t *testing.T) {
			f := smallFile(abc...)
			c.change(f)
			_, err := loadFile(t, f, Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), advice) {
				t.Errorf("error %v, want one that says %q and what to do", err, c.says)
			}
		})
	}
}

func TestMalformedFiles(t *testing.T) {
	const addedX = `{"id":0,"content":"<x>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}`
	edit := func(change func(model object)) string {
		f := smallFile(abc...)
		change(f["model"].(object))
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	whole := edit(func(object) {})
	for name, c := range map[string]struct{ data, says string }{
		"empty":                         {"", "EOF"},
		"null":                          {"null", "null"},
		"truncated":                     {whole[:len(whole)/2], "unexpected EOF"},
		"more behind":                   {whole + "{}", "behind the object"},
		"deep":                          {`{"model":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", "depth"},
		"list":                          {"[]", "want an object"},
		"no vocab":                      {edit(func(m object) { delete(m, "vocab") }), "vocab"},
		"vocab is a list":               {edit(func(m object) { m["vocab"] = []int{1} }), "vocab"},
		"no merges":                     {edit(func(m object) { delete(m, "merges") }), "merges"},
		"huge id":                       {edit(func(m object) { m["vocab"].(object)["zz"] = 1e18 }), `"zz"`},
		"negative id":                   {edit(func(m object) { m["vocab"].(object)["zz"] = -1 }), `"zz"`},
		"fraction":                      {edit(func(m object) { m["vocab"].(object)["zz"] = 1.5 }), `"zz"`},
		"id is a string":                {edit(func(m object) { m["vocab"].(object)["zz"] = "1" }), `"zz"`},
		"duplicate id":                  {edit(func(m object) { m["vocab"].(object)["zz"] = 97 }), `"a" and "zz" both have id 97`},
		"empty token":                   {edit(func(m object) { m["vocab"].(object)[""] = 500 }), "empty token"},
		"byte missing":                  {edit(func(m object) { delete(m["vocab"].(object), "z") }), "0x7a"},
		"unknown part":                  {edit(func(m object) { m["merges"] = []any{"a zz"} }), `merge 0 "a" + "zz"`},
		"unknown result":                {edit(func(m object) { m["merges"] = []any{"z z"} }), `merge 0 "z" + "z"`},
		"merge of one":                  {edit(func(m object) { m["merges"] = []any{"ab"} }), "merge 0"},
		"merge of three":                {edit(func(m object) { m["merges"] = []any{"a b c"} }), "merge 0"},
		"merge list of one":             {edit(func(m object) { m["merges"] = []any{[]any{"a"}} }), "merge 0"},
		"merge of numbers":              {edit(func(m object) { m["merges"] = []any{[]any{1, 2}} }), "merge 0"},
		"merges in two spellings":       {edit(func(m object) { m["merges"] = []any{"a b", []any{"ab", "c"}} }), "merge 1"},
		"merges in two spellings again": {edit(func(m object) { m["merges"] = []any{[]any{"a", "b"}, "ab c"} }), "merge 1"},
		"merge is an object":            {edit(func(m object) { m["merges"] = []any{object{}} }), "merge 0"},
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

// patternFor is the pre-tokenizer of a file that has these parts.
func patternFor(parts ...string) object {
	var list []any
	for _, part := range parts {
		if part == digitsPart {
			list = append(list, object{"type": "Digits", "individual_digits": true})
		} else {
			list = append(list, object{"type": "Split", "pattern": object{"Regex": part}, "behavior": "Isolated", "invert": false})
		}
	}
	list = append(list, object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})
	return object{"type": "Sequence", "pretokenizers": list}
}

// randomMerges makes n merges of a small alphabet; jumbled, they are in no order that training gives.
func randomMerges(r *rand.Rand, n int, jumbled bool) [][2]string {
	tokens := []string{"a", "b", "c", " ", "\n", "1", "'", "s", "\xe4", "\xb8", "\xad", "\xcc", "\x81", "/"}
	var merges [][2]string
	known := map[string]bool{}
	for len(merges) < n {
		a, b := tokens[r.IntN(len(tokens))], tokens[r.IntN(len(tokens))]
		if len(a)+len(b) > 12 || known[a+b] && !jumbled {
			n--
			continue
		}
		if !known[a+b] {
			known[a+b] = true
			tokens = append(tokens, a+b)
		}
		merges = append(merges, [2]string{a, b})
	}
	if jumbled {
		r.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
	}
	return merges
}

func TestRandomModelsAgreeWithNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	units := []string{"a", "b", "c", "ab", " ", "\n", "1", "'s", "中", "\u0301", "/", "\xe4\xb8", "ccc"}
	for k := range 24 {
		jumbled := k%2 == 1
		f := smallFile(randomMerges(r, 60, jumbled)...)
		f["pre_tokenizer"] = patternFor(families[k%len(families)].parts...)
		f["model"].(object)["ignore_merges"] = k%3 == 0
		m := mustLoadFile(t, f, Options{})
		if m.def.merges.ordered == jumbled {
			t.Fatalf("model %d: ordered %t", k, m.def.merges.ordered)
		}
		e := m.NewEncoder()
		for range 60 {
			var text []byte
			for range r.IntN(30) {
				text = append(text, strings.Repeat(units[r.IntN(len(units))], 1+r.IntN(12))...)
			}
			compareWithNaive(t, m, e, norm.AppendValid(nil, text))
		}
	}
}

func FuzzEncode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	var encoders []*Encoder
	for k := range 8 {
		file := smallFile(randomMerges(r, 40, k%2 == 1)...)
		file["pre_tokenizer"] = patternFor(families[k%len(families)].parts...)
		data, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		d, err := jsonDefinition(bytes.NewReader(data))
		if err != nil {
			f.Fatal(err)
		}
		m, err := compile(d, Options{})
		if err != nil {
			f.Fatal(err)
		}
		encoders = append(encoders, m.NewEncoder())
	}
	f.Add([]byte("abcab'S  11\n\n中\xe4\xb8 //"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 400 {
			return // the naive encoder is slow
		}
		for _, e := range encoders {
			compareWithNaive(t, e.m, e, norm.AppendValid(nil, text))
		}
	})
}

func FuzzLoad(f *testing.F) {
	for _, change := range []func(object){
		func(object) {},
		func(o object) { o["added_tokens"] = []any{added(3, "<x>", "special"), added(1, "ab", "normalized")} },
		func(o object) {
			o["pre_tokenizer"] = patternFor(families[len(families)-1].parts...)
			o["model"].(object)["ignore_merges"] = true
		},
	} {
		file := smallFile(abc...)
		change(file)
		data, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := jsonDefinition(bytes.NewReader(data))
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
