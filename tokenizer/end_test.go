package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/tokentest"
)

// loadFolder loads a tokenizer with special tokens </s> (263, an HTML tag of the vocabulary, not special), <eos>
// (264) and <end_of_turn> (265) from a folder that also contains some configuration files.
func loadFolder(t *testing.T, edit func(object), files map[string]string) (*Model, error) {
	t.Helper()
	f := smallFile(tokentest.ABC...)
	f["added_tokens"] = []any{addedToken(0, "</s>"), addedToken(0, "<eos>", "special"),
		addedToken(0, "<end_of_turn>", "special")}
	if edit != nil {
		edit(f)
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files["tokenizer.json"] = string(data)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(filepath.Join(dir, "tokenizer.json"), Options{})
}

func TestEndOfText_Source(t *testing.T) {
	const config, generation = "tokenizer_config.json", "generation_config.json"
	tests := []struct {
		name  string
		edit  func(object)
		files map[string]string
		want  EndToken
		ok    bool
	}{
		{"special token with a known name", nil, nil, EndToken{264, "<eos>", "known name"}, true},
		{"eos_token as text", nil, map[string]string{config: `{"eos_token": "<end_of_turn>"}`},
			EndToken{265, "<end_of_turn>", config}, true},
		{"eos_token as object", nil, map[string]string{config: `{"eos_token": {"content": "</s>", "lstrip": false}}`},
			EndToken{263, "</s>", config}, true},
		{"eos_token of the vocabulary alone", nil, map[string]string{config: `{"eos_token": "ab"}`},
			EndToken{256, "ab", config}, true},
		{"eos_token that the tokenizer lacks", nil, map[string]string{config: `{"eos_token": "<|im_end|>"}`},
			EndToken{0, "", config}, false},
		{"no eos_token", nil, map[string]string{config: `{"eos_token": null}`}, EndToken{264, "<eos>", "known name"}, true},
		{"eos_token_id", nil, map[string]string{generation: `{"eos_token_id": 265}`},
			EndToken{265, "<end_of_turn>", generation}, true},
		{"several of eos_token_id", nil, map[string]string{generation: `{"eos_token_id": [264, 265]}`},
			EndToken{264, "<eos>", generation}, true},
		{"eos_token before eos_token_id", nil, map[string]string{config: `{"eos_token": "<eos>"}`,
			generation: `{"eos_token_id": 265}`},
			EndToken{264, "<eos>", config}, true},
		{"null before eos_token_id", nil, map[string]string{config: `{}`, generation: `{"eos_token_id": 265}`},
			EndToken{265, "<end_of_turn>", generation}, true},
		{"post_processor first", func(f object) {
			f["post_processor"] = object{"type": "BertProcessing", "cls": []any{"a", 97}, "sep": []any{"<end_of_turn>", 265}}
		}, map[string]string{config: `{"eos_token": "<eos>"}`}, EndToken{265, "<end_of_turn>", "post_processor"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{}
			maps.Copy(files, tt.files)
			m, err := loadFolder(t, tt.edit, files)
			if err != nil {
				t.Fatal(err)
			}
			if end, ok := m.EndOfText(); end != tt.want || ok != tt.ok {
				t.Errorf("EndOfText() = %v, %t, want %v, %t", end, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestLoad_RefusesUnreadableConfiguration(t *testing.T) {
	for file, texts := range map[string][]string{
		"tokenizer_config.json":  {"", "{", `[]`, `{"eos_token": 7}`, `{"eos_token": {"content": 7}}`},
		"generation_config.json": {"x", `{"eos_token_id": "a"}`, `{"eos_token_id": [1, "a"]}`, `{"eos_token_id": 1e99}`},
	} {
		for _, text := range texts {
			if _, err := loadFolder(t, nil, map[string]string{file: text}); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%s %q: error %v, want one that names the file", file, text, err)
			}
		}
	}
}
