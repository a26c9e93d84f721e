package corpus_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"loaderd/internal/corpus"
)

var arrowSchema = arrow.NewSchema([]arrow.Field{
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "ids", Type: arrow.LargeListOf(arrow.PrimitiveTypes.Uint16)},
	{Name: "meta", Type: arrow.StructOf(arrow.Field{Name: "path", Type: arrow.BinaryTypes.LargeString})},
	{Name: "kind", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
}, nil)

// arrowRecord returns a record with a null in every tenth row.
func arrowRecord(first, rows int) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema)
	defer b.Release()
	for i := first; i < first+rows; i++ {
		if i%10 == 9 {
			b.Field(0).AppendNull()
		} else {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("row %d é", i))
		}
		b.Field(1).(*array.Int64Builder).Append(int64(1000 + i))
		ids := b.Field(2).(*array.LargeListBuilder)
		ids.Append(true)
		ids.ValueBuilder().(*array.Uint16Builder).AppendValues([]uint16{uint16(i), 7}, nil)
		b.Field(3).(*array.StructBuilder).Append(true)
		b.Field(3).(*array.StructBuilder).FieldBuilder(0).(*array.LargeStringBuilder).Append(fmt.Sprint("folder/", i))
		if err := b.Field(4).AppendValueFromString("a kind"); err != nil {
			panic(err)
		}
	}
	return b.NewRecord()
}

func arrowStream(tb testing.TB, rows int, options ...ipc.Option) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(options, ipc.WithSchema(arrowSchema))...)
	writeArrow(tb, w, rows)
	return out.Bytes()
}

func arrowFile(tb testing.TB, rows int, options ...ipc.Option) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "x")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	w, err := ipc.NewFileWriter(f, append(options, ipc.WithSchema(arrowSchema))...)
	if err != nil {
		tb.Fatal(err)
	}
	writeArrow(tb, w, rows)
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func writeArrow(tb testing.TB, w interface {
	Write(arrow.Record) error
	Close() error
}, rows int) {
	tb.Helper()
	for at := 0; at < rows; at += 30 {
		rec := arrowRecord(at, min(30, rows-at))
		err := w.Write(rec)
		rec.Release()
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
}

// Arrow IPC files and streams are read with internal or external compression, under any name and through a pipe.
func TestArrow_FilesAndStreams(t *testing.T) {
	for name, data := range map[string][]byte{
		"a.arrow": arrowStream(t, 70), "b.arrow": arrowFile(t, 70), "c.feather": arrowFile(t, 70, ipc.WithLZ4()),
		"d":          arrowStream(t, 70, ipc.WithZstd()),
		"e.arrow.gz": []byte(gzipped(t, string(arrowStream(t, 70)))),
	} {
		path := filepath.Join(folder(t, map[string]string{name: string(data)}), name)
		for _, path := range []string{path, "-"} {
			inputs, err := corpus.Open(t.Context(), []string{path}, bytes.NewReader(data), corpus.Options{})
			if err != nil {
				t.Fatal(name, err)
			}
			row := 0
			for d, err := range inputs[0].Documents(t.Context()) {
				have := fmt.Sprintf("%s %s %s", d.Path, d.Label, d.Data)
				wanted := fmt.Sprintf("folder/%d %d row %d é", row, 1000+row, row)
				if row%10 == 9 {
					wanted, have = fmt.Sprintf(":%d: column \"text\" is null", row+1), fmt.Sprint(err)
				} else if err != nil {
					t.Fatal(name, err)
				}
				if !strings.HasSuffix(have, wanted) {
					t.Fatalf("%s: %s, want %s", name, have, wanted)
				}
				row++
			}
			if row != 70 {
				t.Errorf("%s: %d rows, want 70", name, row)
			}
		}
	}
}

func TestArrow_Columns(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{"a.arrow": string(arrowStream(t, 3))}), "a.arrow")
	if docs, _, err := read(t, []string{path}, nil, corpus.Options{Tokens: true, IDField: "kind"}); err != nil ||
		docs[1] != "folder/1|a kind|\x01\x00\x00\x00\x07\x00\x00\x00" {
		t.Errorf("tokens: %q, %v", docs, err)
	}
	if docs, _, err := read(t, []string{path}, nil, corpus.Options{TextField: "kind"}); err != nil ||
		docs[2] != "folder/2||a kind" {
		t.Errorf("a dictionary: %q, %v", docs, err)
	}
	for _, c := range []struct {
		o    corpus.Options
		want string
	}{
		{corpus.Options{TextField: "body"},
			`no column "body"; it has "id", "ids", "kind", "meta", "text" (--text-column names another)`},
		{corpus.Options{TextField: "id"}, `column "id" is int64: want text`},
		{corpus.Options{TextField: "text", Tokens: true}, `column "text" is utf8: want a list of token ids`},
		{corpus.Options{IDField: "key"}, `no column "key"`},
	} {
		if _, _, err := read(t, []string{path}, nil, c.o); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
}

// A truncated file is an error wherever it ends. A stream that ends between two messages cannot be detected.
func TestArrow_TruncatedFileIsError(t *testing.T) {
	whole := arrowFile(t, 40)
	for n := 8; n < len(whole); n += 57 {
		if _, _, err := readFile(t, t.TempDir(), "a.arrow", whole[:n], corpus.Options{}); err == nil {
			t.Errorf("the first %d of %d bytes are read without an error", n, len(whole))
		}
	}
}
