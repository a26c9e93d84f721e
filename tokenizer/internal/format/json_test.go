package format

import (
	"io"
	"slices"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/merge"
)

// Vocabulary and merges come in the order of the file, components as they stand there.
func TestReadConfig(t *testing.T) {
	for name, merges := range map[string]string{
		"texts": `["#version: 0.2", "a b", "ab c"]`,
		"lists": `[["a", "b"], ["ab", "c"]]`,
	} {
		c, err := ReadConfig(strings.NewReader(`{"version": "1.0", "normalizer": {"type": "NFC"}, "added_tokens": [
			{"id": 9, "content": "<x>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}],
			"model": {"type": "BPE", "vocab": {"b": 1, "a": 0, "ab": 7}, "merges": ` + merges + `, "fuse_unk": true}}`))
		if err != nil {
			t.Fatal(name, err)
		}
		if vocab := c.Model["vocab"].([]Entry); !slices.Equal(vocab, []Entry{{"b", 1}, {"a", 0}, {"ab", 7}}) {
			t.Errorf("%s: vocabulary %v", name, vocab)
		}
		if list := c.Model["merges"].([]merge.Rule); !slices.Equal(list, []merge.Rule{{Left: "a", Right: "b"}, {Left: "ab", Right: "c"}}) {
			t.Errorf("%s: merges %v", name, list)
		}
		if len(c.AddedTokens) != 1 || c.AddedTokens[0].Content != "<x>" || !c.AddedTokens[0].Lstrip || c.AddedTokens[0].Rstrip {
			t.Errorf("%s: added tokens %+v", name, c.AddedTokens)
		}
		if c.Normalizer["type"] != "NFC" || c.Model["type"] != "BPE" || c.Model["fuse_unk"] != true {
			t.Errorf("%s: normalizer %v, model %v", name, c.Normalizer, c.Model)
		}
	}
}

func TestReadConfigIsStrict(t *testing.T) {
	for name, c := range map[string]struct{ file, says string }{
		"a name twice":           {`{"version": "1.0", "version": "1.0"}`, "version"},
		"a token twice":          {`{"model": {"vocab": {"a": 1, "a": 2}}}`, `"a"`},
		"an escaped token twice": {`{"model": {"vocab": {"a": 1, "\u0061": 2}}}`, `a`},
		"invalid UTF-8":          {"{\"model\": {\"vocab\": {\"\xff\": 1}}}", "UTF-8"},
		"an unknown field":       {`{"dictionary": {}}`, `field "dictionary" {} is not supported: ` + Advice},
		"another version":        {`{"version": "2.0"}`, `version "2.0" is not supported`},
		"a field is missing": {`{"added_tokens": [{"id": 9, "content": "<x>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false}]}`,
			`added_tokens[0] "<x>": "special" is missing`},
		"a field is null": {`{"added_tokens": [{"id": 9, "content": "<x>", "single_word": null, "lstrip": true, "rstrip": false, "normalized": false,
			"special": true}]}`, `"single_word" is missing`},
		"merges in two ways": {`{"model": {"merges": ["a b", ["ab", "c"]]}}`, "merge 1"},
		"an id too large":    {`{"model": {"vocab": {"a": 99999999}}}`, `token "a": id 99999999`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadConfig(strings.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %s", err, c.says)
			}
		})
	}
}

// A file that is too long does not look like a shorter one.
func TestFilesAreBounded(t *testing.T) {
	for left, whole := range map[int]bool{5: false, 6: true} {
		if b, err := io.ReadAll(&boundedReader{strings.NewReader("123456"), left}); (err == nil) != whole || whole && string(b) != "123456" {
			t.Errorf("6 bytes where %d may be: %q, %v", left, b, err)
		}
	}
}

// What a message quotes is cut, and not amid a character.
func TestQuotesAreCut(t *testing.T) {
	if s := strings.Repeat("é", 150); Cut(s) != s {
		t.Errorf("300 bytes become %d", len(Cut(s)))
	}
	if s := Cut("a" + strings.Repeat("é", 150)); s != "a"+strings.Repeat("é", 149)+"..." {
		t.Errorf("301 bytes become %q", s)
	}
}

// Components within others are checked as those around them.
func TestCheckFieldsGoesWithin(t *testing.T) {
	digits := map[string]any{"type": "Digits"}
	within := map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "Sequence", "pretokenizers": []any{digits}}}}
	if err := CheckFields("pre_tokenizer", within); err == nil || !strings.Contains(err.Error(), "individual_digits") {
		t.Errorf("without individual_digits: %v", err)
	}
	digits["individual_digits"] = false
	if err := CheckFields("pre_tokenizer", within); err != nil {
		t.Errorf("with individual_digits: %v", err)
	}
}
