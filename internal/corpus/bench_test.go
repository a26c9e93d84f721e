package corpus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/gosource"
)

// BenchmarkJSONLines reads the documents of a file of JSON lines: Go's library.
func BenchmarkJSONLines(b *testing.B) {
	var file bytes.Buffer
	e := json.NewEncoder(&file)
	e.SetEscapeHTML(false)
	texts := benchTexts(b)
	for _, text := range texts {
		if err := e.Encode(map[string]any{"id": "a", "text": text}); err != nil {
			b.Fatal(err)
		}
	}
	benchmarkFile(b, "a.jsonl", file.Bytes(), texts)
}

// BenchmarkParquet reads the documents of a Parquet file with zstd: Go's library in row groups of 500 rows.
func BenchmarkParquet(b *testing.B) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	var file bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &file,
		parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd)), pqarrow.DefaultWriterProps())
	if err != nil {
		b.Fatal(err)
	}
	texts := benchTexts(b)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer rows.Release()
	for i, text := range texts {
		rows.Field(0).(*array.StringBuilder).Append(text)
		if i%500 == 499 || i == len(texts)-1 {
			group := rows.NewRecord()
			err = errors.Join(err, w.Write(group))
			group.Release()
		}
	}
	if err := errors.Join(err, w.Close()); err != nil {
		b.Fatal(err)
	}
	benchmarkFile(b, "a.parquet", file.Bytes(), texts)
}

// benchTexts returns 50 MiB of the files of Go's library.
func benchTexts(b *testing.B) (texts []string) {
	b.Helper()
	size := 0
	for text, err := range gosource.Files(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		texts = append(texts, string(text))
		if size += len(text); size > 50<<20 {
			break
		}
	}
	return texts
}

// benchmarkFile reads the documents of a file with the given texts.
func benchmarkFile(b *testing.B, name string, content []byte, texts []string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.Fatal(err)
	}
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		inputs, err := corpus.Open(b.Context(), []string{path}, nil, corpus.Options{})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, err := range inputs[0].Documents(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != len(texts) {
			b.Fatalf("%d documents of %d", n, len(texts))
		}
	}
	b.ReportMetric(float64(b.N*len(texts))/b.Elapsed().Seconds(), "documents/s")
}
