package format

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	hf "github.com/sugarme/tokenizer"

	"loaderd/tokenizer/internal/merge"
)

// ReadConfig returns vocabulary and merges in the order of the file, and components unchanged.
func TestReadConfig_KeepsOrderOfFile(t *testing.T) {
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
		if list := c.Model["merges"].([]merge.Rule); !slices.Equal(list,
			[]merge.Rule{{Left: "a", Right: "b"}, {Left: "ab", Right: "c"}}) {
			t.Errorf("%s: merges %v", name, list)
		}
		if len(c.AddedTokens) != 1 || c.AddedTokens[0].Content != "<x>" || !c.AddedTokens[0].Lstrip ||
			c.AddedTokens[0].Rstrip {
			t.Errorf("%s: added tokens %+v", name, c.AddedTokens)
		}
		if c.Normalizer["type"] != "NFC" || c.Model["type"] != "BPE" || c.Model["fuse_unk"] != true {
			t.Errorf("%s: normalizer %v, model %v", name, c.Normalizer, c.Model)
		}
	}
}

// Components have the same values as with encoding/json.
func TestReadConfig_ComponentsEqualEncodingJSON(t *testing.T) {
	const component = `{"a": [1, -2.5e3, true, false, null, "\u00e9\n", [], {}], "b": {"c": {"d": [[1]]}}, "": ""}`
	c, err := ReadConfig(strings.NewReader(`{"normalizer": ` + component + `, "decoder": null}`))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(component), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, c.Normalizer); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c.Decoder != nil {
		t.Errorf("null is %v", c.Decoder)
	}
}

func TestReadConfig_IsStrict(t *testing.T) {
	for name, c := range map[string]struct{ file, says string }{
		"a name twice":           {`{"version": "1.0", "version": "1.0"}`, "version"},
		"a token twice":          {`{"model": {"vocab": {"a": 1, "a": 2}}}`, `"a"`},
		"an escaped token twice": {`{"model": {"vocab": {"a": 1, "\u0061": 2}}}`, `a`},
		"invalid UTF-8":          {"{\"model\": {\"vocab\": {\"\xff\": 1}}}", "UTF-8"},
		"an unknown field":       {`{"dictionary": {}}`, `field "dictionary" {} is not supported: ` + PretokenizedHint},
		"another version":        {`{"version": "2.0"}`, `version "2.0" is not supported`},
		"a field is missing": {
			`{"added_tokens": [{"id": 9, "content": "<x>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false}]}`,
			`added_tokens[0] "<x>": "special" is missing`},
		"a field is null": {`{"added_tokens": [{"id": 9, "content": "<x>", "single_word": null, "lstrip": true, "rstrip": false, "normalized": false,
			"special": true}]}`, `"single_word" is missing`},
		"an id with a point": {`{"added_tokens": [{"id": 9.0, "content": "<x>"}]}`,
			"added_tokens[0]: want a whole number for id, have 9.0"},
		"a content of numbers":    {`{"added_tokens": [{"id": 9, "content": 7}]}`, "want a text for content, have 7"},
		"a flag of words":         {`{"added_tokens": [{"special": "yes"}]}`, `want true or false for special, have "yes"`},
		"an added token of words": {`{"added_tokens": ["<x>"]}`, `added_tokens[0]: want an object, have "<x>"`},
		"a component is a list": {`{"normalizer": [{"type": "NFC"}]}`,
			`normalizer: want an object, have [{"type":"NFC"}]`},
		"a number without a place": {`{"decoder": {"cleanup": 1e999}}`, "1e999"},
		"a merge of three":         {`{"model": {"merges": [["a", "b", "c"]]}}`, "merge 0"},
		"a merge of a number":      {`{"model": {"merges": [["a", 1]]}}`, "merge 0"},
		"merges in two ways":       {`{"model": {"merges": ["a b", ["ab", "c"]]}}`, "merge 1"},
		"a score too large":        {`{"model": {"vocab": [["a", 18446744073709551615e300]]}}`, "too large or too small"},
		"an id too large":          {`{"model": {"vocab": {"a": 99999999}}}`, `token "a": id 99999999`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadConfig(strings.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that contains %s", err, c.says)
			}
		})
	}
}

// The reference ignores a field whose name differs in the case of letters. encoding/json treats it as the field of
// the Config.
func TestReadConfig_NamesAreExact(t *testing.T) {
	const token = `{"id": 9, "content": "<x>",
		"single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false,
		"Special": true, "Content": "<y>", "\u017fpecial": true, "other": [1]}`
	c, err := ReadConfig(strings.NewReader(`{"added_tokens": [` + token + `],
		"model": {"Vocab": 1, "a\"b\u00e9": 2, "vocab": {}, "merges": []}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &hf.Config{
		AddedTokens: []hf.TokenConfig{{Id: 9, Content: "<x>"}},
		Model:       map[string]any{"Vocab": 1.0, "a\"bé": 2.0, "vocab": []Entry(nil), "merges": []merge.Rule(nil)},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, err = ReadConfig(strings.NewReader(`{"Model": {}}`))
	if err == nil || !strings.Contains(err.Error(), `field "Model"`) {
		t.Errorf("a section in another case: %v", err)
	}
}

// The result equals that of the library for the whole file, except for vocabulary, merges, and added tokens with
// names in another case.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(`{"version": "1.0", "normalizer": {"type": "NFC", "a": [1, null, "\u00e9,"]}, "decoder": null,
		"added_tokens": [{"id": 9, "content": "<x>",
		"single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true, "x": {}}, {}],
		"model": {"type": "BPE", "vocab": {"b": 1}, "merges": [["a", "b"]], "fuse_unk": true}}`))
	f.Add([]byte(`{"model": {}, "added_tokens": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		have, err := ReadConfig(bytes.NewReader(data))
		if err != nil {
			return
		}
		want := &hf.Config{}
		if err := json.Unmarshal(data, want); err != nil {
			t.Fatalf("the library refuses the file: %v", err)
		}
		for _, c := range []*hf.Config{have, want} {
			delete(c.Model, "vocab")
			delete(c.Model, "merges")
		}
		if len(have.AddedTokens) != len(want.AddedTokens) {
			t.Errorf("%d added tokens, want %d", len(have.AddedTokens), len(want.AddedTokens))
		}
		have.AddedTokens, want.AddedTokens = nil, nil
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestRecoverPanic_ReturnsError(t *testing.T) {
	err := recoverPanic(func() error { panic("index out of range") })
	const want = "github.com/sugarme/tokenizer cannot read the file: index out of range"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A file that is too long is an error, not a truncated file.
func TestBoundedReader_TooLongIsAnError(t *testing.T) {
	for left, whole := range map[int]bool{5: false, 6: true} {
		if b, err := io.ReadAll(&boundedReader{strings.NewReader("123456"), left}); (err == nil) != whole || whole &&
			string(b) != "123456" {
			t.Errorf("6 bytes where %d may be: %q, %v", left, b, err)
		}
	}
}

// Quotes in messages are truncated, but not within a character.
func TestTruncate_CutsBetweenCharacters(t *testing.T) {
	if s := strings.Repeat("é", 150); Truncate(s) != s {
		t.Errorf("300 bytes become %d", len(Truncate(s)))
	}
	if s := Truncate("a" + strings.Repeat("é", 150)); s != "a"+strings.Repeat("é", 149)+"..." {
		t.Errorf("301 bytes become %q", s)
	}
}

// Nested components are checked like outer ones.
func TestCheckFields_ChecksNestedComponents(t *testing.T) {
	digits := map[string]any{"type": "Digits"}
	within := map[string]any{"type": "Sequence",
		"pretokenizers": []any{map[string]any{"type": "Sequence", "pretokenizers": []any{digits}}}}
	if err := CheckFields("pre_tokenizer", within); err == nil || !strings.Contains(err.Error(), "individual_digits") {
		t.Errorf("without individual_digits: %v", err)
	}
	digits["individual_digits"] = false
	if err := CheckFields("pre_tokenizer", within); err != nil {
		t.Errorf("with individual_digits: %v", err)
	}
}
