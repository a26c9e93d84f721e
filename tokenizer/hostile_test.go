package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/tokentest"
)

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
		d, err := definition.FromJSON(bytes.NewReader(data))
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
		d, err := definition.FromRanks(bytes.NewReader(data), definition.RankOptions{Pattern: pattern, SpecialTokens: []string{special}})
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
