package lengthsin

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/lengths"
)

// FuzzReadLengths compares the lengths read from any accepted input with its lines.
func FuzzReadLengths(f *testing.F) {
	for _, s := range []string{"", "1\n2\n", "7", " 8 \r\n", "0\n", "2147483647\n2147483648", "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		have, err := Read(bytes.NewReader(in), "fuzz")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "read lengths: fuzz:") {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if want := bytes.Fields(in); len(want) != len(have) {
			t.Fatalf("%q is read as %v", in, have)
		}
		for i, word := range bytes.Fields(in) {
			if w := strings.TrimLeft(string(word), "0"); w != fmt.Sprint(have[i]) {
				t.Fatalf("%q is read as %d", word, have[i])
			}
		}
	})
}

func BenchmarkReadLengths(b *testing.B) {
	var in strings.Builder
	for _, n := range lengths.LogNormal(1_000_000, 1) {
		fmt.Fprintln(&in, n)
	}
	for b.Loop() {
		if _, err := Read(strings.NewReader(in.String()), "benchmark"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds(), "lengths/s")
}

// parquetBytes returns a file with the given rows of a column n, in row groups of three, and columns of other kinds.
func parquetBytes(tb testing.TB, kind arrow.DataType, rows []string) []byte {
	tb.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "n", Type: kind, Nullable: true},
		{Name: "nested", Type: arrow.StructOf(arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64})},
	}, nil)
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		tb.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for group := range slices.Chunk(rows, 3) {
		for _, row := range group {
			b.Field(0).(*array.StringBuilder).Append("text")
			b.Field(2).(*array.StructBuilder).Append(true)
			b.Field(2).(*array.StructBuilder).FieldBuilder(0).(*array.Int64Builder).Append(1)
			if err := b.Field(1).AppendValueFromString(row); err != nil {
				tb.Fatal(err)
			}
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
	return out.Bytes()
}

func writeFile(tb testing.TB, name string, data []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestReadParquet_IntegersAndLists(t *testing.T) {
	for _, x := range []struct {
		kind arrow.DataType
		rows []string
		want []int32
	}{
		{arrow.PrimitiveTypes.Int64, []string{"7", "1", "2147483647", "5"}, []int32{7, 1, math.MaxInt32, 5}},
		{arrow.PrimitiveTypes.Int32, []string{"7", "8"}, []int32{7, 8}},
		{arrow.PrimitiveTypes.Int8, []string{"7"}, []int32{7}},
		{arrow.PrimitiveTypes.Uint16, []string{"65535"}, []int32{65535}},
		{arrow.PrimitiveTypes.Uint64, []string{"9"}, []int32{9}},
		{arrow.ListOf(arrow.PrimitiveTypes.Int32), []string{"[1,2,3]", "[4]", "[5,6]", "[7,7,7,7]"}, []int32{3, 1, 2, 4}},
		{arrow.ListOf(arrow.PrimitiveTypes.Uint16), []string{"[1,null,3]"}, []int32{3}},
		{arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64), []string{"[1,2]", "[3]"}, []int32{2, 1}},
	} {
		path := writeFile(t, "x.parquet", parquetBytes(t, x.kind, x.rows))
		have, name, err := ReadFile(path, "n")
		if err != nil || !slices.Equal(have, x.want) || name != path+", column n" {
			t.Errorf("%s: %v is read as %v of %s, %v", x.kind, x.rows, have, name, err)
		}
	}
}

func TestReadParquet_RefusesInvalidLengths(t *testing.T) {
	good := parquetBytes(t, arrow.PrimitiveTypes.Int64, []string{"7", "8", "9", "10"})
	rows := func(kind arrow.DataType, rows ...string) []byte { return parquetBytes(t, kind, rows) }
	for name, x := range map[string]struct {
		data   []byte
		column string
		want   string
	}{
		"zero": {rows(arrow.PrimitiveTypes.Int64, "7", "8", "9", "0"), "n",
			`column "n", row 4: 0: want a length in tokens, 1 to 2147483647`},
		"negative": {rows(arrow.PrimitiveTypes.Int32, "-4"), "n", `column "n", row 1: -4: want`},
		"2^31":     {rows(arrow.PrimitiveTypes.Int64, "2147483648"), "n", `row 1: 2147483648: want`},
		"a date": {rows(arrow.FixedWidthTypes.Date32, "2020-01-01"), "n",
			`column "n" is of type INT32 (logical type Date)`},
		"lists of text": {rows(arrow.ListOf(arrow.BinaryTypes.String), `["a"]`), "n", `column "n" is of type BYTE_ARRAY`},
		"a null list": {rows(arrow.ListOf(arrow.PrimitiveTypes.Int32), "[1]", array.NullValueStr), "n",
			`row 2: an empty list: want`},
		"2^63":          {rows(arrow.PrimitiveTypes.Uint64, "9223372036854775808"), "n", `row 1: 9223372036854775808: want`},
		"null":          {rows(arrow.PrimitiveTypes.Int64, "7", array.NullValueStr), "n", `row 2: null: want`},
		"an empty list": {rows(arrow.ListOf(arrow.PrimitiveTypes.Int32), "[1]", "[]"), "n", `row 2: an empty list: want`},
		"text": {good, "text",
			`column "text" is of type BYTE_ARRAY (logical type String): want integers, or lists of integers`},
		"a struct":      {good, "nested", `column "nested" is nested: want integers, or lists of integers`},
		"an absent one": {good, "length", `no column "length"; it has "text", "n", "nested"`},
		"a fraction":    {rows(arrow.PrimitiveTypes.Float64, "1.5"), "n", `column "n" is of type DOUBLE`},
		"lists of lists": {rows(arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int32)), "[[1]]"), "n",
			`column "n" is nested`},
		"not Parquet":   {[]byte("7\n8\n"), "n", "not a readable Parquet file"},
		"cut":           {good[:len(good)/2], "n", "not a readable Parquet file"},
		"an empty file": {nil, "n", "not a readable Parquet file"},
	} {
		path := writeFile(t, "x.parquet", x.data)
		if have, _, err := ReadFile(path, x.column); err == nil || !strings.Contains(err.Error(), x.want) ||
			!strings.HasPrefix(err.Error(), "read lengths: "+path+": ") {
			t.Errorf("%s: %v, the error is %v, want %s", name, have, err, x.want)
		}
	}
}

// A file that is truncated at any byte is rejected.
func TestReadParquet_RefusesTruncatedFile(t *testing.T) {
	good := parquetBytes(t, arrow.PrimitiveTypes.Int64, []string{"7", "8", "9", "10"})
	path := filepath.Join(t.TempDir(), "x.parquet")
	for n := range good {
		if err := os.WriteFile(path, good[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if have, err := readParquet(path, "n"); err == nil || !strings.Contains(err.Error(), "not a readable Parquet file") {
			t.Fatalf("the first %d of %d bytes are read as %v, %v", n, len(good), have, err)
		}
	}
}

// FuzzParquetLengths reads any bytes as a Parquet file of lengths. The result is lengths, or an error that names the
// file.
func FuzzParquetLengths(f *testing.F) {
	f.Add(parquetBytes(f, arrow.PrimitiveTypes.Int64, []string{"7", "1", "5", "9"}))
	f.Add(parquetBytes(f, arrow.ListOf(arrow.PrimitiveTypes.Int32), []string{"[1,2,3]", "[4]"}))
	path := filepath.Join(f.TempDir(), "x.parquet")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		have, _, err := ReadFile(path, "n")
		if err != nil && !strings.HasPrefix(err.Error(), "read lengths: "+path+": ") {
			t.Fatal(err)
		}
		for _, n := range have {
			if n < 1 {
				t.Fatalf("length %d", n)
			}
		}
	})
}
