package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/tokentest"
)

// Files that are made to do harm end in an error, without taking memory that is out of proportion to them.
func TestHostileFiles(t *testing.T) {
	whole := string(tokentest.JSON(t, tokentest.SmallFile(tokentest.ABC...)))
	replaced := func(from, to string) string {
		if !strings.Contains(whole, from) {
			t.Fatalf("no %s in the file", from)
		}
		return strings.Replace(whole, from, to, 1)
	}
	token := func(content string) string {
		return `{"id":0,"content":` + string(tokentest.JSON(t, content)) + `,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}`
	}
	many := func(n int, one func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = one(i)
		}
		return strings.Join(parts, ",")
	}
	for name, c := range map[string]struct{ data, says string }{
		"deep lists":                   {strings.Repeat("[", 1<<20), "depth"},
		"deep normalizer":              {replaced(`"normalizer":null`, `"normalizer":`+strings.Repeat(`{"a":`, 1<<20)), "depth"},
		"deep sequence":                {replaced(`"normalizer":null`, `"normalizer":`+strings.Repeat(`{"type":"Sequence","normalizers":[`, 4000)+`{"type":"No"}`+strings.Repeat(`]}`, 4000)), "No"},
		"deep vocab":                   {replaced(`"a":97`, `"a":`+strings.Repeat("[", 1<<20)), "depth"},
		"huge normalizer":              {replaced(`"normalizer":null`, `"normalizer":{"type":"`+strings.Repeat("x", maxComponentBytes)+`"}`), "at most"},
		"huge added token":             {replaced(`"added_tokens":[]`, `"added_tokens":[`+token(strings.Repeat("x", maxAddedBytes+1))+`]`), "at most"},
		"many added tokens":            {replaced(`"added_tokens":[]`, `"added_tokens":[`+many(20_000, func(i int) string { return token(strings.Repeat("x", 500) + fmt.Sprint(i)) })+`]`), "at most"},
		"id of 2^31":                   {replaced(`"a":97`, `"a":2147483648`), "integer"},
		"id of 2^64":                   {replaced(`"a":97`, `"a":18446744073709551616`), "integer"},
		"id with an exponent":          {replaced(`"a":97`, `"a":9e1`), "integer"},
		"id is not a number":           {replaced(`"a":97`, `"a":NaN`), "invalid"},
		"id without an end":            {replaced(`"a":97`, `"a":`+strings.Repeat("9", 1<<20)), "integer"},
		"token twice":                  {replaced(`"a":97`, `"a":97,"a":97`), "duplicate"},
		"field twice":                  {replaced(`"normalizer":null`, `"normalizer":null,"normalizer":null`), "duplicate"},
		"half a surrogate":             {replaced(`"a":97`, `"a\ud800":97`), "surrogate"},
		"invalid UTF-8":                {replaced(`"a":97`, "\"a\xff\":97"), "UTF-8"},
		"unknown field":                {replaced(`"normalizer":null`, `"normaliser":null`), "normaliser"},
		"unknown version":              {replaced(`"version":"1.0"`, `"version":"2.0"`), "version"},
		"merge of nothing":             {replaced(`"merges":[`, `"merges":[" b",`), "merge 0"},
		"merge of itself":              {replaced(`"merges":[`, `"merges":["ab ab",`), "merge 0"},
		"merges are a string":          {replaced(`"merges":[`, `"merges":"","x":[`), "merges"},
		"model twice removed":          {`{"model":{"model":{}}}`, "vocab"},
		"model is a list":              {replaced(`"model":{`, `"model":[],"x":{`), "model"},
		"added is an tokentest.Object": {replaced(`"added_tokens":[]`, `"added_tokens":{}`), "added_tokens"},
		"added without flags":          {replaced(`"added_tokens":[]`, `"added_tokens":[{"id":1,"content":"x"}]`), "missing"},
		"added flag is a word":         {replaced(`"added_tokens":[]`, `"added_tokens":[`+strings.Replace(token("x"), "false", `"no"`, 1)+`]`), "added_tokens[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := jsonDefinition(strings.NewReader(c.data))
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			} else if len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20+uint64(20*len(c.data)) {
				t.Errorf("%d bytes are allocated for a file of %d", took, len(c.data))
			}
		})
	}
}

// zeros is a file without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil }

func TestFilesHaveABound(t *testing.T) {
	if _, err := jsonDefinition(zeros{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error %v", err)
	}
}

func TestRankFiles(t *testing.T) {
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
		o          Options
	}{
		"no rank":            {all + "YWI=\n", "line 257: want a token in base64 and its rank, have 1 fields", Options{}},
		"three fields":       {all + "YWI= 1 2\n", "line 257", Options{}},
		"no base64":          {"\n" + all + "Y?= 256\n", `line 258: "Y?=" is no token in base64`, Options{}},
		"token twice":        {all + "YQ== 256\n", `line 257: token "a" is that of line 98`, Options{}},
		"rank twice":         {all + "YWI= 97\n", "line 257: rank 97 is that of line 98", Options{}},
		"negative rank":      {all + "YWI= -1\n", `line 257: rank "-1" is not an integer`, Options{}},
		"huge rank":          {all + "YWI= 99999999999\n", "line 257", Options{}},
		"long line":          {all + strings.Repeat("A", 2<<20), "line 257: longer", Options{}},
		"nothing in it":      {"  \n\n", "no token", Options{}},
		"binary":             {"\x00\x01\x02", "line 1", Options{}},
		"unknown":            {all, "name the pattern", Options{}},
		"unknown pattern":    {all, `(`, Options{Pattern: "("}},
		"a byte is missing":  {strings.Replace(all, "YQ== 97\n", "", 1), "0x61", Options{Pattern: "gpt2"}},
		"special on a token": {all, `special token "<x>"`, Options{Pattern: "gpt2", SpecialTokens: []string{"<x>=97"}}},
		"special twice":      {all, "once", Options{Pattern: "gpt2", SpecialTokens: []string{"<x>", "<x>=500"}}},
		"special is empty":   {all, "special token", Options{Pattern: "gpt2", SpecialTokens: []string{""}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(write(t, c.data), c.o); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
	t.Run("special tokens", func(t *testing.T) {
		// xyz is made of z's that no merge joins: only a word that is it becomes it
		data := all + tokentest.Base64("ab") + " 300\n" + tokentest.Base64("abc") + " 301\n" + tokentest.Base64("xyz") + " 302\n"
		m, err := Load(write(t, data), Options{Pattern: "llama3", SpecialTokens: []string{"<x>", "<a=b>=400", "<z>"}})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(m.NewEncoder().Encode(nil, []byte("abcab<x><a=b>xyz<z>1xyzz")))
		if want := "[301 300 303 400 302 401 49 120 121 122 122]"; got != want {
			t.Errorf("ids %s, want %s", got, want)
		}
	})
	if _, err := Load("gpt2", Options{Pattern: "qwen"}); err == nil || !strings.Contains(err.Error(), "rank file only") {
		t.Errorf("a pattern for a tokenizer that has one: %v", err)
	}
}

// Whatever a file says, reading it ends in an error or in a tokenizer that encodes any text, decodes its ids and has a
// fingerprint.
func FuzzTokenizerFile(f *testing.F) {
	f.Add(tokentest.JSON(f, tokentest.SmallFile(tokentest.ABC...)), []byte("abc abc"))
	with := tokentest.SmallFile(tokentest.ABC...)
	with["added_tokens"] = []any{tokentest.Added(1, "<x>", "lstrip", "rstrip"), tokentest.Added(2, " ab", "normalized", "single_word"), tokentest.Added(3, " ")}
	with["normalizer"] = tokentest.Object{"type": "NFC"}
	f.Add(tokentest.JSON(f, with), []byte("a<x> ab e\u0301"))
	with = tokentest.SmallFile()
	with["pre_tokenizer"] = nil
	with["normalizer"] = tokentest.Object{"type": "Sequence", "normalizers": []any{tokentest.Object{"type": "Prepend", "prepend": "▁"}, tokentest.Object{"type": "Replace", "pattern": tokentest.Object{"String": " "}, "content": "▁"}}}
	with["decoder"] = tokentest.Object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
	with["post_processor"] = tokentest.Object{"type": "BertProcessing", "cls": []any{"a", 97}, "sep": []any{"b", 98}}
	with["model"] = tokentest.Object{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
		"vocab": tokentest.Object{"<unk>": 0, "▁": 1, "a": 97, "b": 98, "▁a": 2, "ab": 3, "<0x0A>": 4}, "merges": []any{"▁ a", "a b"}}
	f.Add(tokentest.JSON(f, with), []byte("ab a\n\xff"))
	f.Fuzz(func(t *testing.T, data, text []byte) {
		d, err := jsonDefinition(bytes.NewReader(data))
		if err != nil {
			return
		}
		m, err := compile(d, Options{AddSpecialTokens: true})
		if err != nil {
			return
		}
		if !FingerprintForm.MatchString(m.Fingerprint()) {
			t.Errorf("fingerprint %s", m.Fingerprint())
		}
		if _, err := m.Decode(nil, m.NewEncoder().Encode(nil, text)); err != nil {
			t.Errorf("the way back: %v", err)
		}
	})
}

func FuzzRankFile(f *testing.F) {
	var b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&b, "%s %d\n", tokentest.Base64(string([]byte{byte(i)})), i)
	}
	f.Add([]byte(b.String()+"YWI= 256\nYWJj 300\n"), []byte("abc<x> 12"), "gpt2", "<x>")
	f.Add([]byte("YQ== 0"), []byte("a"), `\w+|.`, "a=1")
	f.Fuzz(func(t *testing.T, data, text []byte, pattern, special string) {
		d, err := fileOfRanks(bytes.NewReader(data), rankOptions{pattern, []string{special}})
		if err != nil {
			return
		}
		m, err := compile(d, Options{})
		if err != nil {
			return
		}
		if _, err := m.Decode(nil, m.NewEncoder().Encode(nil, text)); err != nil {
			t.Errorf("the way back: %v", err)
		}
	})
}
