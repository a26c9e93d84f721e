package corpus_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
)

// bucket is a bucket of S3 whose requests are counted.
type bucket struct {
	*objecttest.Web
	stores *objects.Stores
}

// newBucket stores files by their names in a bucket, s3://b.
func newBucket(t *testing.T, files map[string][]byte) bucket {
	t.Helper()
	s3 := objecttest.NewS3(t)
	t.Setenv("AWS_ENDPOINT_URL", s3.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	for name, data := range files {
		s3.Web.Put("/bucket/"+name, data)
	}
	return bucket{s3.Web, objects.New(objects.Options{RetryTimeout: 1})}
}

// requested returns how many bytes of a file were requested, and resets the counter.
func (b bucket) requested(name string) int64 {
	n, _ := b.Requested("/bucket/" + name)
	b.ResetRequests()
	return n
}

// entries reads an input from a position on. It returns the entries, with the position after each, and how many
// entries precede the first one.
func entries(t *testing.T, in *corpus.Input, from corpus.Position) (all []string, at []corpus.Position, skipped int64,
	err error) {
	t.Helper()
	in.StartAt(from)
	for d, err := range in.Documents(t.Context()) {
		var left *record.SkipError
		if err != nil && !errors.As(err, &left) {
			return all, at, in.SkippedEntries(), err
		}
		if left != nil {
			err = left.Err
		}
		all, at, skipped = append(all, fmt.Sprint(d.Label, string(d.Data), err)), append(at, in.Position()), in.SkippedEntries()
	}
	return all, at, skipped, nil
}

// open returns the inputs of addresses.
func (b bucket) open(t *testing.T, o corpus.Options, patterns ...string) []*corpus.Input {
	t.Helper()
	o.Stores = b.stores
	inputs, err := corpus.Open(t.Context(), patterns, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

// Of a Parquet object, the footer and the column chunks of the wanted columns are requested, once; after a kill only
// those of the remaining row groups.
func TestParquet_RequestsOnlyWantedColumns(t *testing.T) {
	const groups, rows = 20, 50
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "image", Type: arrow.BinaryTypes.Binary}, {Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	path := filepath.Join(t.TempDir(), "a.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(schema, f, parquet.NewWriterProperties(parquet.WithDictionaryDefault(false)),
		pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	noise := rand.NewChaCha8([32]byte{1})
	for i := range groups * rows {
		image := make([]byte, 10_000)
		_, _ = noise.Read(image)
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.BinaryBuilder).Append(image)
		b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("row %d %x", i, image[:400]))
		if i%rows == rows-1 {
			rec := b.NewRecord()
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
			rec.Release()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s3 := newBucket(t, map[string][]byte{"a.parquet": data})
	local, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, _, _, err := entries(t, local[0], corpus.Position{})
	if err != nil || len(want) != groups*rows {
		t.Fatalf("%d rows, %v", len(want), err)
	}
	got, positions, _, err := entries(t, s3.open(t, corpus.Options{}, "s3://bucket/a.parquet")[0], corpus.Position{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d rows, want %d, %v", len(got), len(want), err)
	}
	texts := int64(groups * rows * 900)
	if n := s3.requested("a.parquet"); n < texts/2 || n > texts+200_000 {
		t.Errorf("requested %d of %d bytes for %d of texts", n, len(data), texts)
	}
	const from = 15*rows + 7
	got, _, skipped, err := entries(t, s3.open(t, corpus.Options{}, "s3://bucket/a.parquet")[0], positions[from])
	if err != nil || skipped != 15*rows || !reflect.DeepEqual(got, want[skipped:]) {
		t.Fatalf("%d rows after %d, %v", len(got), skipped, err)
	}
	if n := s3.requested("a.parquet"); n > texts/4+200_000 {
		t.Errorf("requested %d bytes for the last quarter of the texts, of %d", n, texts)
	}
	// A file that is replaced by another one of the same size is an error.
	in := s3.open(t, corpus.Options{}, "s3://bucket/a.parquet")[0]
	n := 0
	for _, err = range in.Documents(t.Context()) {
		if n++; n == 10 {
			s3.Put("/bucket/a.parquet", bytes.Replace(data, []byte("row 999 "), []byte("row 998 "), 1))
		}
	}
	if !objects.IsKind(err, objects.Changed) {
		t.Errorf("after %d rows: %v", n, err)
	}
}
