package tokenizer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/tokentest"
)

// Reading any file ends in an error or in a tokenizer that encodes any text, decodes its ids and has a fingerprint.
func FuzzTokenizerFile(f *testing.F) {
	f.Add(tokentest.JSON(f, smallFile(tokentest.ABC...)), []byte("abc abc"))
	with := smallFile(tokentest.ABC...)
	with["added_tokens"] = []any{addedToken(1, "<x>", "lstrip", "rstrip"),
		addedToken(2, " ab", "normalized", "single_word"), addedToken(3, " ")}
	with["normalizer"] = object{"type": "NFC"}
	f.Add(tokentest.JSON(f, with), []byte("a<x> ab e\u0301"))
	with = smallFile()
	with["pre_tokenizer"] = nil
	with["normalizer"] = object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": "▁"},
		object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}}
	with["decoder"] = object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
	with["post_processor"] = object{"type": "BertProcessing", "cls": []any{"a", 97}, "sep": []any{"b", 98}}
	with["model"] = object{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
		"vocab": object{"<unk>": 0, "▁": 1, "a": 97, "b": 98, "▁a": 2, "ab": 3, "<0x0A>": 4}, "merges": []any{"▁ a", "a b"}}
	f.Add(tokentest.JSON(f, with), []byte("ab a\n\xff"))
	f.Fuzz(func(t *testing.T, data, text []byte) {
		d, err := definition.FromJSON(bytes.NewReader(data))
		if err != nil {
			return
		}
		m, err := newModel(d, Options{AddSpecialTokens: true})
		if err != nil {
			return
		}
		if !FingerprintPattern.MatchString(m.Fingerprint()) {
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
		d, err := definition.FromRanks(bytes.NewReader(data),
			definition.RankOptions{Pattern: pattern, SpecialTokens: []string{special}})
		if err != nil {
			return
		}
		m, err := newModel(d, Options{})
		if err != nil {
			return
		}
		if _, err := m.Decode(nil, m.NewEncoder().Encode(nil, text)); err != nil {
			t.Errorf("the way back: %v", err)
		}
	})
}
