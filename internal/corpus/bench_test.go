package corpus_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/gosource"
)

// BenchmarkJSONLines reads the documents of a file of JSON lines: Go's library.
func BenchmarkJSONLines(b *testing.B) {
	var file bytes.Buffer
	e := json.NewEncoder(&file)
	e.SetEscapeHTML(false)
	size := 0
	for text, err := range gosource.Files(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Encode(map[string]any{"id": "a", "text": string(text)}); err != nil {
			b.Fatal(err)
		}
		if size += len(text); size > 50<<20 {
			break
		}
	}
	path := filepath.Join(b.TempDir(), "a.jsonl")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		inputs, err := corpus.Open(b.Context(), []string{path}, nil, corpus.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range inputs[0].Documents(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
