package columnfile_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"github.com/pierrec/lz4/v4"

	"loaderd/internal/columnfile"
)

func record(tb testing.TB) arrow.Record {
	tb.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range 20 {
		b.Field(0).(*array.StringBuilder).Append(strings.Repeat("words ", i))
		b.Field(1).(*array.Int64Builder).Append(int64(i))
		ids := b.Field(2).(*array.ListBuilder)
		ids.Append(true)
		ids.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{int32(i), 7}, nil)
	}
	return b.NewRecord()
}

// parquetData returns a file of the record.
func parquetData(tb testing.TB, options ...parquet.WriterProperty) []byte {
	tb.Helper()
	rec := record(tb)
	defer rec.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &out, parquet.NewWriterProperties(options...),
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func arrowData(tb testing.TB, options ...ipc.Option) []byte {
	tb.Helper()
	rec := record(tb)
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(options, ipc.WithSchema(rec.Schema()))...)
	if err := w.Write(rec); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// readParquet writes data to a file in a folder, reads all its columns and returns how many levels they have.
func readParquet(tb testing.TB, dir string, data []byte) (levels int64, err error) {
	tb.Helper()
	path := filepath.Join(dir, "x.parquet")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
	p, err := columnfile.OpenParquet(path)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	return levels, columnfile.Guard(func() error {
		for g := range p.NumRowGroups() {
			for leaf := range p.MetaData().Schema.NumColumns() {
				switch p.MetaData().Schema.Column(leaf).PhysicalType() {
				case parquet.Types.Int32, parquet.Types.Int64, parquet.Types.ByteArray:
				default:
					continue
				}
				v, err := p.RowGroup(g).ReadColumn(leaf, 256)
				if err != nil {
					return err
				}
				for {
					more, err := v.HasNext()
					if err != nil {
						return err
					}
					if !more {
						break
					}
					v.Advance()
					levels++
				}
			}
		}
		return nil
	})
}

func readArrow(data []byte) (rows int64, err error) {
	a, err := columnfile.NewArrowReader(bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	for {
		batch, err := a.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows += batch.NumRows()
	}
}

var variants = map[string][]parquet.WriterProperty{
	"plain":        {parquet.WithDictionaryDefault(false)},
	"dictionary":   {parquet.WithDictionaryDefault(true)},
	"snappy":       {parquet.WithCompression(compress.Codecs.Snappy)},
	"gzip":         {parquet.WithCompression(compress.Codecs.Gzip)},
	"zstd":         {parquet.WithCompression(compress.Codecs.Zstd)},
	"brotli":       {parquet.WithCompression(compress.Codecs.Brotli)},
	"second pages": {parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithCompression(compress.Codecs.Zstd)},
	"delta": {parquet.WithDictionaryDefault(false), parquet.WithEncodingFor("text", parquet.Encodings.DeltaByteArray),
		parquet.WithEncodingFor("n", parquet.Encodings.DeltaBinaryPacked)},
	"delta length": {parquet.WithDictionaryDefault(false),
		parquet.WithEncodingFor("text", parquet.Encodings.DeltaLengthByteArray)},
}

// lz4Codec writes LZ4 pages, which Arrow's library does not. A page in Hadoop's framing has two blocks.
type lz4Codec struct{ hadoop bool }

func (lz4Codec) NewReader(io.Reader) io.ReadCloser  { panic("pages are decoded by package columns") }
func (lz4Codec) NewWriter(io.Writer) io.WriteCloser { panic("pages are encoded at once") }
func (lz4Codec) NewWriterLevel(io.Writer, int) (io.WriteCloser, error) {
	panic("pages are encoded at once")
}
func (lz4Codec) Decode([]byte, []byte) []byte                { panic("pages are decoded by package columns") }
func (lz4Codec) CompressBound(n int64) int64                 { return int64(lz4.CompressBlockBound(int(n))) + 24 }
func (c lz4Codec) EncodeLevel(dst, src []byte, _ int) []byte { return c.Encode(dst, src) }
func (c lz4Codec) Encode(_, src []byte) (out []byte) {
	blocks := [][]byte{src}
	if c.hadoop {
		blocks = [][]byte{src[:len(src)/2], src[len(src)/2:]}
	}
	for _, block := range blocks {
		var z lz4.CompressorHC // unlike lz4.Compressor it also compresses incompressible data
		encoded := make([]byte, lz4.CompressBlockBound(len(block)))
		n, err := z.CompressBlock(block, encoded)
		if err != nil {
			panic(err)
		}
		if c.hadoop {
			out = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(out, uint32(len(block))), uint32(n))
		}
		out = append(out, encoded[:n]...)
	}
	return out
}

// rawLZ4 is the codec LZ4_RAW.
const rawLZ4 = compress.Compression(7)

func init() {
	compress.RegisterCodec(rawLZ4, lz4Codec{})
	compress.RegisterCodec(compress.Codecs.Lz4, lz4Codec{hadoop: true})
	variants["lz4 raw"] = []parquet.WriterProperty{parquet.WithCompression(rawLZ4)}
	variants["lz4 of Hadoop"] = []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Lz4)}
	variants["lz4 of Hadoop, second pages"] = []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Lz4),
		parquet.WithDataPageVersion(parquet.DataPageV2)}
}

func TestParquet_ReadsEveryVariant(t *testing.T) {
	for name, options := range variants {
		if levels, err := readParquet(t, t.TempDir(), parquetData(t, options...)); err != nil || levels != 20+20+40 {
			t.Errorf("%s: %d values, %v, want 80", name, levels, err)
		}
	}
}

func TestArrow_ReadsEveryCodec(t *testing.T) {
	for name, options := range map[string][]ipc.Option{"plain": nil, "zstd": {ipc.WithZstd()}, "lz4": {ipc.WithLZ4()}} {
		if rows, err := readArrow(arrowData(t, options...)); err != nil || rows != 20 {
			t.Errorf("%s: %d rows, %v", name, rows, err)
		}
	}
}

// frugal checks that f allocates little memory.
func frugal(tb testing.TB, what string, f func()) {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<30 {
		tb.Errorf("%s takes %d MiB", what, took>>20)
	}
}

// Reading ends and uses little memory for any change of bytes in a file. Four bytes are changed together because
// counts and lengths have that size.
func TestDamagedFiles_MemoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	parquetFile, arrowStream := parquetData(t, parquet.WithCompression(compress.Codecs.Zstd)), arrowData(t)
	for _, value := range []uint32{math.MaxInt32, math.MaxUint32, 1 << 24} {
		for at := 0; at+4 <= len(parquetFile); at += 13 {
			data := bytes.Clone(parquetFile)
			binary.LittleEndian.PutUint32(data[at:], value)
			frugal(t, "Parquet", func() { _, _ = readParquet(t, dir, data) }) // an error, or other values
		}
		for at := 0; at+4 <= len(arrowStream); at += 6 {
			data := bytes.Clone(arrowStream)
			binary.LittleEndian.PutUint32(data[at:], value)
			frugal(t, "Arrow", func() { _, _ = readArrow(data) })
		}
	}
}

func FuzzParquet(f *testing.F) {
	for _, options := range variants {
		f.Add(parquetData(f, options...))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		frugal(t, "Parquet", func() { _, _ = readParquet(t, dir, data) }) // an error, or some values
	})
}

func FuzzArrow(f *testing.F) {
	f.Add(arrowData(f))
	f.Add(arrowData(f, ipc.WithZstd()))
	f.Add(append([]byte(columnfile.ArrowFileMagic+"\x00\x00"), append(arrowData(f), columnfile.ArrowFileMagic...)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		frugal(t, "Arrow", func() { _, _ = readArrow(data) })
	})
}
