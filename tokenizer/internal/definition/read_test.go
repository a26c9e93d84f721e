package definition_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/format"
	"loaderd/tokenizer/internal/tokentest"
)

func TestFromJSON_RefusesUnsupportedFields(t *testing.T) {
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
		"normalizer":       {set("normalizer", object{"type": "Nmt"}), `normalizer {"type":"Nmt"}`},
		"long replacement": {set("normalizer", replacing("a", strings.Repeat("b", 100_000))), "up to 100000 times as long"},
		"replacements of replacements": {set("normalizer", object{"type": "Sequence", "normalizers": []any{
			replacing("a", "bbbbbbbbb"), replacing("b", "aaaaaaaaa")}}), "up to 81 times as long"},
		"long prefix": {set("normalizer", object{"type": "Prepend", "prepend": strings.Repeat("b", 100)}),
			"up to 101 times as long"},
		"model type":          {set("model.type", "WordLevel"), `model type "WordLevel"`},
		"dropout":             {set("model.dropout", 0.1), "model dropout 0.1"},
		"suffix":              {set("model.end_of_word_suffix", "</w>"), "end_of_word_suffix"},
		"prefix":              {set("model.continuing_subword_prefix", "##"), "continuing_subword_prefix"},
		"option is an object": {set("model.dropout", object{}), "dropout {}"},
		"ignore_merges":       {set("model.ignore_merges", "yes"), "ignore_merges"},
		"truncation":          {set("truncation", object{"max_length": 3}), "truncation"},
		"padding":             {set("padding", object{"strategy": "BatchLongest"}), "padding"},
	} {
		t.Run(name, func(t *testing.T) {
			f := smallFile(tokentest.ABC...)
			c.change(f)
			_, err := definition.FromJSON(bytes.NewReader(tokentest.JSON(t, f)))
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), format.PretokenizedHint) {
				t.Errorf("error %v, want one that contains %q and what to do", err, c.says)
			}
		})
	}
}

func TestFromJSON_RefusesMalformedFiles(t *testing.T) {
	const addedX = `{"id":0,"content":"<x>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}`
	edit := func(change func(model object)) string {
		f := smallFile(tokentest.ABC...)
		change(f["model"].(object))
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	whole := edit(func(object) {})
	for name, c := range map[string]struct{ data, says string }{
		"empty":       {"", "the file is empty"},
		"null":        {"null", "want a token in base64"},
		"truncated":   {whole[:len(whole)/2], "the file ends within its JSON"},
		"more behind": {whole + "{}", "follows the object"},
		"deep": {`{"model":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}",
			"depth"},
		"list":            {"[]", "want an object"},
		"no vocab":        {edit(func(m object) { delete(m, "vocab") }), "vocab"},
		"vocab is a list": {edit(func(m object) { m["vocab"] = []int{1} }), "vocab"},
		"no merges":       {edit(func(m object) { delete(m, "merges") }), "merges"},
		"huge id":         {edit(func(m object) { m["vocab"].(object)["zz"] = 1e18 }), `"zz"`},
		"negative id":     {edit(func(m object) { m["vocab"].(object)["zz"] = -1 }), `"zz"`},
		"fraction":        {edit(func(m object) { m["vocab"].(object)["zz"] = 1.5 }), `"zz"`},
		"id is a string":  {edit(func(m object) { m["vocab"].(object)["zz"] = "1" }), `"zz"`},
		"duplicate id": {edit(func(m object) {
			m["vocab"].(object)["zz"] = 97
		}), `"a" and "zz" both have id 97`},
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
		"added twice": {strings.Replace(whole, `"added_tokens":[]`, `"added_tokens":[`+addedX+`,`+
			strings.Replace(addedX, `"special":false`, `"special":true`, 1)+`]`, 1), "listed twice"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokenizer.json")
			if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := definition.Read(path, definition.RankOptions{}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that contains %q", err, c.says)
			}
		})
	}
	_, err := definition.Read("meta-llama/Llama-3.1-8B", definition.RankOptions{})
	if err == nil || !strings.Contains(err.Error(), "tokenizer.json that belongs to it") {
		t.Errorf("a model of a hub: %v", err)
	}
	if _, err := definition.Read(filepath.Join(t.TempDir(), "absent"), definition.RankOptions{}); err == nil ||
		!strings.Contains(err.Error(), "gpt2") {
		t.Errorf("an absent file: %v", err)
	}
}

// The error for a foreign file names its kind and what to do.
func TestRead_NamesForeignFiles(t *testing.T) {
	model := string(tokentest.SentencePiece(tokentest.SentencePieceOptions{Pieces: []tokentest.Piece{{Text: "a"}}}))
	for name, c := range map[string]struct{ data, says string }{
		"SentencePiece":         {model[:len(model)-3], "read SentencePiece model: "},
		"GGUF":                  {"GGUF\x03\x00\x00\x00", "a GGUF model: give the tokenizer.json"},
		"merges.txt":            {"#version: 0.2\n\u0120 t\n", "a list of merges (merges.txt)"},
		"merges without a line": {"\u0120 t\r\nh e\r\ni n\r\n", "a list of merges (merges.txt)"},
		"vocab.json":            {`{"!": 0, "a": 1}`, "a vocabulary (vocab.json)"},
		"tokenizer_config.json": {`{"add_bos_token": true, "added_tokens_decoder": {}}`, "tokenizer_config.json"},
		"special_tokens_map":    {`{"bos_token": "<s>"}`, "special_tokens_map.json"},
		"pieces that are cut":   {model[:5], "want a token in base64"},
		"two words":             {"hello world\n", `"hello" is no token in base64`},
		"another JSON":          {`{"architectures": []}`, `field "architectures" [] is not supported`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := definition.Read(path, definition.RankOptions{})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that contains %q", err, c.says)
			}
		})
	}
	_, err := definition.Read(t.TempDir(), definition.RankOptions{})
	if err == nil || !strings.Contains(err.Error(), "a folder: give the path of the tokenizer.json") {
		t.Errorf("a folder: %v", err)
	}
}

func TestFromRanks_RefusesInvalidFiles(t *testing.T) {
	all := func() string {
		var b strings.Builder
		for i := range 256 {
			fmt.Fprintf(&b, "%s %d\n", tokentest.Base64(string([]byte{byte(i)})), i)
		}
		return b.String()
	}()
	write := func(t *testing.T, data string) string {
		path := filepath.Join(t.TempDir(), "x.tiktoken")
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		data, says string
		o          definition.RankOptions
	}{
		"no rank": {all + "YWI=\n", "line 257: want a token in base64 and its rank, have 1 fields",
			definition.RankOptions{}},
		"three fields":       {all + "YWI= 1 2\n", "line 257", definition.RankOptions{}},
		"no base64":          {"\n" + all + "Y?= 256\n", `line 258: "Y?=" is no token in base64`, definition.RankOptions{}},
		"token twice":        {all + "YQ== 256\n", `line 257: token "a" is that of line 98`, definition.RankOptions{}},
		"rank twice":         {all + "YWI= 97\n", "line 257: rank 97 is that of line 98", definition.RankOptions{}},
		"negative rank":      {all + "YWI= -1\n", `line 257: rank "-1" is not an integer`, definition.RankOptions{}},
		"huge rank":          {all + "YWI= 99999999999\n", "line 257", definition.RankOptions{}},
		"long line":          {all + strings.Repeat("A", 2<<20), "line 257: longer", definition.RankOptions{}},
		"nothing in it":      {"  \n\n", "no token", definition.RankOptions{}},
		"binary":             {"\x00\x01\x02", "line 1", definition.RankOptions{}},
		"unknown":            {all, "name the pattern", definition.RankOptions{}},
		"unknown pattern":    {all, `(`, definition.RankOptions{Pattern: "("}},
		"a word's border":    {all, "pattern of a rank file", definition.RankOptions{Pattern: `\b.|.`}},
		"a match of nothing": {all, "pattern of a rank file", definition.RankOptions{Pattern: `(?=a)|.`}},
		"a byte is missing":  {strings.Replace(all, "YQ== 97\n", "", 1), "0x61", definition.RankOptions{Pattern: "gpt2"}},
		"special on a token": {all, `special token "<x>"`,
			definition.RankOptions{Pattern: "gpt2", SpecialTokens: []string{"<x>=97"}}},
		"special twice": {all, "once", definition.RankOptions{Pattern: "gpt2",
			SpecialTokens: []string{"<x>", "<x>=500"}}},
		"special is empty": {all, "special token", definition.RankOptions{Pattern: "gpt2", SpecialTokens: []string{""}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := definition.Read(write(t, c.data), c.o); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that contains %q", err, c.says)
			}
		})
	}
	if _, err := definition.Read("gpt2", definition.RankOptions{Pattern: "qwen"}); err == nil ||
		!strings.Contains(err.Error(), "rank file only") {
		t.Errorf("a pattern for a tokenizer that has one: %v", err)
	}
}
