package corpus_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/corpus"
	"loaderd/internal/corpus/record"
)

// Small files may contain documents that are large in total. Memory depends on the largest document, not on their
// number.

const (
	bombRows = 256
	bombSize = 256 << 10 // bytes per document
)

// parquetWith returns a compressed Parquet file with one column of texts, with a dictionary or with shared prefixes.
func parquetWith(t *testing.T, dictionary bool, texts func(row int) string) string {
	t.Helper()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for row := range bombRows {
		b.Append(texts(row))
	}
	record := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String}}, nil),
		[]arrow.Array{b.NewArray()}, bombRows)
	defer record.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(record.Schema(), &out,
		parquet.NewWriterProperties(parquet.WithDictionaryDefault(dictionary),
			parquet.WithEncoding(parquet.Encodings.DeltaByteArray), parquet.WithCompression(compress.Codecs.Zstd),
			parquet.WithStats(false)), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(record), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// allocatedUntilFirst reads the first document or error of a file and returns the bytes allocated for it.
func allocatedUntilFirst(
	t *testing.T, name, content string, o corpus.Options,
) (d record.Document, allocated uint64, err error) {
	t.Helper()
	path := filepath.Join(folder(t, map[string]string{name: content}), name)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	inputs, err := corpus.Open(t.Context(), []string{path}, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	for d, err = range inputs[0].Documents(t.Context()) {
		break
	}
	runtime.ReadMemStats(&after)
	return d, after.TotalAlloc - before.TotalAlloc, err
}

func TestParquet_MemoryOfRepeatedLargeText(t *testing.T) {
	text := strings.Repeat("x", bombSize)
	for name, c := range map[string]struct {
		dictionary bool
		texts      func(row int) string
		most       uint64
	}{
		"dictionary": {true, func(int) string { return text }, 16 << 20},
		// A page of all values. Each is a byte longer than its prefix, which is the previous value.
		"shared prefixes": {false, func(row int) string { return text + strings.Repeat("y", row+1) }, 32 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			file := parquetWith(t, c.dictionary, c.texts)
			if len(file) > 64<<10 {
				t.Fatalf("the file has %d bytes", len(file))
			}
			d, allocated, err := allocatedUntilFirst(t, "a.parquet", file, corpus.Options{})
			if err != nil || string(d.Data) != c.texts(0) {
				t.Fatalf("a document of %d bytes: %v", len(d.Data), err)
			}
			if allocated > c.most {
				t.Errorf("the first of %d documents of %d bytes takes %d bytes, at most %d", bombRows, bombSize, allocated, c.most)
			}
			docs, _, err := read(t, []string{filepath.Join(folder(t, map[string]string{"a.parquet": file}), "a.parquet")}, nil,
				corpus.Options{})
			if err != nil || len(docs) != bombRows {
				t.Fatalf("%d documents: %v", len(docs), err)
			}
			for row, text := range textsOf(docs) {
				if text != c.texts(row) {
					t.Fatalf("row %d has %d bytes", row, len(text))
				}
			}
		})
	}
}

func TestArrow_RefusesNestedNameColumns(t *testing.T) {
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.Append("a text")
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.BinaryTypes.String)
	lists.Append(true)
	lists.ValueBuilder().(*array.StringBuilder).Append("a name")
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "names", Type: arrow.ListOf(arrow.BinaryTypes.String)}}, nil)
	file := ipcOf(t, array.NewRecord(schema, []arrow.Array{texts.NewArray(), lists.NewArray()}, 1))
	for name, o := range map[string]corpus.Options{
		"want text or integers":   {IDField: "names"},
		"want a plain column":     {Meta: []record.Meta{{Name: "names", Column: "names"}}},
		"want a list of token id": {TextField: "names", Tokens: true},
	} {
		if _, _, err := allocatedUntilFirst(t, "a.arrow", file, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A list that is too large is not copied.
func TestArrow_LargeTokenListIsNotCopied(t *testing.T) {
	const tokens = 4 << 20
	ids := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8)
	ids.Append(true)
	ids.ValueBuilder().(*array.Int8Builder).AppendValues(make([]int8, tokens), nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8)}}, nil)
	file := ipcOf(t, array.NewRecord(schema, []arrow.Array{ids.NewArray()}, 1))
	_, allocated, err := allocatedUntilFirst(t, "a.arrow", file, corpus.Options{TextField: "ids", Tokens: true,
		MaxDocument: 1 << 20})
	var skip *record.SkipError
	if !errors.As(err, &skip) || skip.Reason != record.TooLarge {
		t.Fatalf("%v", err)
	}
	if allocated > 3*tokens {
		t.Errorf("a list of %d bytes that is left out takes %d bytes", tokens, allocated)
	}
}

// The memory for a line depends on its length, not on the number of its fields and parts.
func TestJSON_MemoryOfManyValues(t *testing.T) {
	const values = 1 << 20
	for name, c := range map[string]struct{ line, want string }{
		"fields": {`{"text":"a text"` + strings.Repeat(`,"":0`, values) + `}`, "an object has more than 65536 fields"},
		"nested": {`{"text":"a text","meta":{"":0` + strings.Repeat(`,"":0`, values) + `}}`, ""},
		"empty":  {`{"parts":[{}` + strings.Repeat(`,{}`, values) + `]}`, `part 0 has no "text"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, allocated, err := allocatedUntilFirst(t, "a.jsonl", c.line+"\n", corpus.Options{})
			var skip *record.SkipError
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &skip) || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("%v", err)
			}
			if most := uint64(8 * len(c.line)); allocated > most {
				t.Errorf("a line of %d bytes takes %d bytes, %.1f times as many", len(c.line), allocated,
					float64(allocated)/float64(len(c.line)))
			}
		})
	}
}

// Files of an archive that were read use no memory, however many the archive has.
func TestTar_MemoryOfManyFiles(t *testing.T) {
	const files, most = 100_000, 4 << 20
	var archive bytes.Buffer
	z, err := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for i := range files {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%07d.txt", i), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder(t, map[string]string{"a.tar.gz": archive.String()}), "a.tar.gz")
	inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, n := uint64(0), 0
	for range inputs[0].Documents(t.Context()) {
		if n++; n%(files/4) > 0 {
			continue
		}
		var m runtime.MemStats
		runtime.GC()
		if runtime.ReadMemStats(&m); first == 0 {
			first = m.HeapAlloc
		}
		if m.HeapAlloc > first+most {
			t.Fatalf("behind %d files %d bytes are in use, behind %d %d", n, m.HeapAlloc, files/4, first)
		}
	}
	if n != files {
		t.Errorf("%d of %d files", n, files)
	}
}
