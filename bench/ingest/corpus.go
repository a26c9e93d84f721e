package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"loaderd/internal/corpus/gosource"
)

// document is a piece of a file of Go's library.
type document struct {
	id   string
	text []byte
}

// documents yields the files of Go's library again and again, until their texts have the given size.
func documents(ctx context.Context, bytes int64) iter.Seq2[document, error] {
	return func(yield func(document, error) bool) {
		for i := 0; bytes > 0; {
			for text, err := range gosource.Files(ctx) {
				if err != nil {
					yield(document{}, err)
					return
				}
				if len(text) == 0 {
					continue
				}
				if !yield(document{fmt.Sprintf("go/%d", i), text}, nil) {
					return
				}
				i++
				if bytes -= int64(len(text)); bytes <= 0 {
					return
				}
			}
		}
	}
}

// writers write the documents as files of one format.
var writers = []struct {
	name, extension string
	write           func(io.Writer, iter.Seq2[document, error]) error
}{
	{"JSON lines", ".jsonl", writeLines},
	{"JSON lines in gzip", ".jsonl.gz", func(w io.Writer, all iter.Seq2[document, error]) error {
		z := gzip.NewWriter(w)
		return errors.Join(writeLines(z, all), z.Close())
	}},
	{"JSON lines in zstd", ".jsonl.zst", func(w io.Writer, all iter.Seq2[document, error]) error {
		z, err := zstd.NewWriter(w)
		if err != nil {
			return err
		}
		return errors.Join(writeLines(z, all), z.Close())
	}},
	{"Parquet with zstd", ".parquet", writeParquet},
}

// Names of the same lines in several files: one after another, and interleaved.
const (
	inParts       = "JSON lines in 8 files"
	inInterleaved = "interleaved"
	parts         = 8
)

// writeParts writes documents as JSON lines to the files of a folder.
func writeParts(ctx context.Context, dir string, bytes int64) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for i := range parts {
		name := filepath.Join(dir, fmt.Sprintf("%d.jsonl", i))
		if err := writeFile(ctx, name, bytes/parts, writeLines); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes documents to a file.
func writeFile(ctx context.Context, path string, bytes int64,
	write func(io.Writer, iter.Seq2[document, error]) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(write(w, documents(ctx, bytes)), w.Flush(), f.Close())
}

func writeLines(w io.Writer, all iter.Seq2[document, error]) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // as most writers of JSON lines
	for d, err := range all {
		if err != nil {
			return err
		}
		line := struct {
			ID       string `json:"id"`
			Language string `json:"language"`
			Text     string `json:"text"`
		}{d.id, "go", string(d.text)}
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// rowGroup is the number of rows of a row group.
const rowGroup = 1000

func writeParquet(w io.Writer, all iter.Seq2[document, error]) error {
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String},
		{Name: "language", Type: arrow.BinaryTypes.String}, {Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	file, err := pqarrow.NewFileWriter(schema, w,
		parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd)), pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	group := func() error {
		r := b.NewRecord()
		defer r.Release()
		return file.Write(r)
	}
	rows := 0
	for d, err := range all {
		if err != nil {
			return err
		}
		for i, value := range []string{d.id, "go", string(d.text)} {
			b.Field(i).(*array.StringBuilder).Append(value)
		}
		if rows++; rows%rowGroup == 0 {
			if err := group(); err != nil {
				return err
			}
		}
	}
	return errors.Join(group(), file.Close())
}
