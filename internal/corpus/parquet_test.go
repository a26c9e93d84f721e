package corpus_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
)

// parquetFile returns a file with columns text (every tenth null), number and ids, in row groups of 300 rows.
func parquetFile(tb testing.TB, rows int) string {
	tb.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "number", Type: arrow.PrimitiveTypes.Int64},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	path := filepath.Join(tb.TempDir(), "docs.parquet")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(schema, f,
		parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy)),
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		tb.Fatal(err)
	}
	for at := 0; at < rows; at += 300 {
		for i := at; i < min(at+300, rows); i++ {
			if i%10 == 9 {
				b.Field(0).AppendNull()
			} else {
				b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("row %d é", i))
			}
			b.Field(1).(*array.Int64Builder).Append(int64(1000 + i))
			ids := b.Field(2).(*array.ListBuilder)
			ids.Append(true)
			ids.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{int32(i), 7}, nil)
		}
		rec := b.NewRecord()
		err := w.Write(rec)
		rec.Release()
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestParquet_TextColumn(t *testing.T) {
	path := parquetFile(t, 1000)
	docs, skipped, err := read(t, []string{path}, nil, corpus.Options{IDField: "number"})
	if err != nil {
		t.Fatal(err)
	}
	var wantDocs, wantSkipped []string
	for i := range 1000 {
		if i%10 == 9 {
			wantSkipped = append(wantSkipped, fmt.Sprintf("docs.parquet:%d bad record", i+1))
		} else {
			wantDocs = append(wantDocs, fmt.Sprintf("docs.parquet|%d|row %d é", 1000+i, i))
		}
	}
	want(t, "documents", docs, wantDocs)
	want(t, "left out", skipped, wantSkipped)
}

func TestParquet_TokenColumn(t *testing.T) {
	docs, skipped, err := read(t, []string{parquetFile(t, 3)}, nil, corpus.Options{Tokens: true})
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	want(t, "documents", docs, []string{
		"docs.parquet||\x00\x00\x00\x00\x07\x00\x00\x00", "docs.parquet||\x01\x00\x00\x00\x07\x00\x00\x00",
		"docs.parquet||\x02\x00\x00\x00\x07\x00\x00\x00",
	})
}

func TestParquet_RefusesUnusableColumns(t *testing.T) {
	path := parquetFile(t, 3)
	for _, c := range []struct {
		o    corpus.Options
		want string
	}{
		{corpus.Options{TextField: "body"}, `no column "body"; it has "ids", "number", "text"`},
		{corpus.Options{IDField: "key"}, `no column "key"`},
		{corpus.Options{TextField: "number"}, `column "number" is INT64 (Int(bitWidth=64, isSigned=true)): want text`},
		{corpus.Options{TextField: "text", Tokens: true}, `column "text" is BYTE_ARRAY (String): want a list of token ids`},
	} {
		_, _, err := read(t, []string{path}, nil, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%+v: error is %v, want one that names the file and contains %s", c.o, err, c.want)
		}
	}
}

// Damage anywhere results in an error that names the file, or in documents: never a panic, and never more rows than
// the file has.
func TestParquet_DamageIsErrorOrDocuments(t *testing.T) {
	whole, err := os.ReadFile(parquetFile(t, 400))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	try := func(name string, data []byte) {
		path := filepath.Join(dir, "damaged.parquet")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		docs, _, err := read(t, []string{path}, nil, corpus.Options{})
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error does not name the file: %v", name, err)
		}
		if len(docs) > 400 {
			t.Errorf("%s: %d documents of 400", name, len(docs))
		}
	}
	for cut := 0; cut < len(whole); cut += max(1, len(whole)/60) {
		try(fmt.Sprint("cut at ", cut), whole[:cut])
	}
	for at := 0; at < len(whole); at += max(1, len(whole)/200) {
		flipped := append([]byte(nil), whole...)
		flipped[at] ^= 0x55
		try(fmt.Sprint("flipped at ", at), flipped)
	}
}

// The embedded Arrow schema of a file is ignored. If damaged, it causes no allocation and does not change the
// documents.
func TestParquet_IgnoresDamagedArrowSchema(t *testing.T) {
	for name, data := range damagedSchemas(t) {
		docs, _, err := readFile(t, t.TempDir(), "a.parquet", data, corpus.Options{})
		if err != nil || len(docs) != 3 {
			t.Fatalf("%s: %d documents, %v, want 3", name, len(docs), err)
		}
	}
}

// damagedSchemas returns copies of a file with one vector or offset of its schema set to the maximum.
func damagedSchemas(tb testing.TB) map[string][]byte {
	tb.Helper()
	whole, err := os.ReadFile(parquetFile(tb, 3))
	if err != nil {
		tb.Fatal(err)
	}
	at := bytes.Index(whole, []byte("ARROW:schema"))
	if at < 0 {
		tb.Fatal("the file carries no schema")
	}
	at += bytes.Index(whole[at:], []byte("/////")) // the start of such a message
	end := at + bytes.IndexFunc(whole[at:], func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", r)
	})
	schema, err := base64.StdEncoding.DecodeString(string(whole[at:end]))
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string][]byte{}
	for i := 8; i+4 <= len(schema); i += 4 {
		bad := bytes.Clone(schema)
		binary.LittleEndian.PutUint32(bad[i:], 0x7fffffff)
		data := bytes.Clone(whole)
		copy(data[at:end], base64.StdEncoding.EncodeToString(bad))
		all[fmt.Sprint("byte ", i)] = data
	}
	return all
}
