package columnfile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/parquet/compress"
	flatbuffers "github.com/google/flatbuffers/go"
)

// hostileBytes is what reading a hostile file may allocate in addition to its size: a step of readUpTo, and memory of
// decoders.
const hostileBytes = 64 << 20

// checkHostile checks that reading a file ends with an error and allocates at most hostileBytes and eight times its
// size.
func checkHostile(t *testing.T, file []byte, read func() error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := read()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > hostileBytes+8*uint64(len(file)) {
		t.Errorf("a file of %d bytes takes %d MiB", len(file), took>>20)
	}
	if err == nil {
		t.Error("no error")
	}
}

// thriftStruct is a struct of Thrift's compact protocol: fields by id, each an int (i32), an int64, a string, a struct
// or a list.
type thriftStruct map[int]any

// thriftList is a list of structs, strings or int32s. The declared count may differ from the number of its elements.
type thriftList struct {
	count    int
	elements []any
}

func listOf(elements ...any) thriftList { return thriftList{len(elements), elements} }

func appendThrift(b []byte, v any) []byte {
	switch v := v.(type) {
	case int:
		return binary.AppendVarint(b, int64(v))
	case int64:
		return binary.AppendVarint(b, v)
	case string:
		return append(binary.AppendUvarint(b, uint64(len(v))), v...)
	case thriftList:
		b = binary.AppendUvarint(append(b, 0xf0|kindOf(v.elements[0])), uint64(v.count))
		for _, e := range v.elements {
			b = appendThrift(b, e)
		}
		return b
	case thriftStruct:
		last := 0
		for id := range 16 {
			if field := v[id]; field != nil {
				b = appendThrift(append(b, byte(id-last)<<4|kindOf(field)), field)
				last = id
			}
		}
		return append(b, 0)
	}
	panic(fmt.Sprintf("%T", v))
}

func kindOf(v any) byte {
	switch v.(type) {
	case int:
		return 5
	case int64:
		return 6
	case string:
		return 8
	case thriftList:
		return 9
	}
	return 12
}

const maxCount = math.MaxInt32

// Physical types, encodings and types of pages.
const (
	int64Type, bytesType                            = 2, 6
	plain, rle, deltaPacked, deltaLength, deltaText = 0, 3, 5, 6, 7
	dictionaryIndex                                 = 8
	dataKind, dictionaryKind                        = 0, 2
)

// hostileFile returns a Parquet file with pages and a footer.
func hostileFile(pages []byte, footer thriftStruct) []byte {
	meta := appendThrift(nil, footer)
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(meta)))
	return slices.Concat([]byte("PAR1"), pages, meta, length, []byte("PAR1"))
}

// hostileSchema returns a Parquet file that has only a footer with a schema.
func hostileSchema(elements thriftList) []byte {
	return hostileFile(nil, thriftStruct{1: 1, 2: elements, 3: int64(0), 4: thriftList{0, []any{thriftStruct{}}}})
}

// hostileColumn describes a column of a Parquet file.
type hostileColumn struct {
	kind, values, repetition int // repetition 1: values may be null
	codec                    compress.Compression
	dictionary               []byte // the dictionary page
	pages                    []byte
}

func (c hostileColumn) file() []byte {
	pages := slices.Concat(c.dictionary, c.pages)
	column := thriftStruct{1: c.kind, 2: listOf(plain, rle), 3: listOf("text"), 4: int(c.codec), 5: int64(c.values),
		6: int64(len(pages)), 7: int64(len(pages)), 9: int64(4 + len(c.dictionary))}
	if c.dictionary != nil {
		column[11] = int64(4)
	}
	return hostileFile(pages, thriftStruct{
		1: 1, 3: int64(c.values),
		2: listOf(thriftStruct{4: "schema", 5: 1}, thriftStruct{1: c.kind, 3: c.repetition, 4: "text"}),
		4: listOf(thriftStruct{1: listOf(thriftStruct{2: int64(4), 3: column}), 2: int64(len(pages)), 3: int64(c.values)}),
	})
}

// page returns a page with a header that declares sizes independent of its data.
func page(kind, values, encoding, uncompressed, compressed int, data []byte) []byte {
	header := thriftStruct{1: kind, 2: uncompressed, 3: compressed}
	if kind == dataKind {
		header[5] = thriftStruct{1: values, 2: encoding, 3: rle, 4: rle}
	} else {
		header[7] = thriftStruct{1: values, 2: encoding}
	}
	return append(appendThrift(nil, header), data...)
}

func plainPage(values, encoding int, data ...[]byte) []byte {
	all := slices.Concat(data...)
	return page(dataKind, values, encoding, len(all), len(all), all)
}

func uvarints(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// runOfLevels returns definition levels: a run of n zeros.
func runOfLevels(n uint64) []byte {
	run := append(uvarints(n<<1), 0)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(run))), run...)
}

// zstdZeros returns a zstd frame of zeros, with a block of four bytes per 128 KiB.
func zstdZeros(mebibytes int) []byte {
	const rleBlock, blockBytes = 1 << 1, 128 << 10
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x38}
	for range 8 * mebibytes {
		frame = append(binary.LittleEndian.AppendUint32(frame, rleBlock|blockBytes<<3)[:len(frame)+3], 0)
	}
	return append(frame, 1, 0, 0)
}

// growingValues returns pages of one value each, which starts with the whole previous value.
func growingValues(pages int) (b []byte) {
	suffix := strings.Repeat("x", 32<<10)
	for i := range pages {
		prefix := binary.AppendVarint(uvarints(128, 4, 1), int64(i*len(suffix)))
		length := binary.AppendVarint(uvarints(128, 4, 1), int64(len(suffix)))
		b = append(b, plainPage(1, deltaText, prefix, length, []byte(suffix))...)
	}
	return b
}

func TestParquet_HostileFilesUseBoundedMemory(t *testing.T) {
	leaf := thriftStruct{1: bytesType, 3: 0, 4: "text"}
	deep := listOf(leaf)
	for range 10_000 {
		deep.elements = append([]any{thriftStruct{3: 0, 4: "s", 5: 1}}, deep.elements...)
	}
	deep.count = len(deep.elements)
	one := []byte{1, 0, 0, 0, 'a'}
	zeros := make([]byte, 100)
	compressed := func(codec compress.Compression, uncompressed, size int, data []byte) []byte {
		p := page(dataKind, 1, plain, uncompressed, size, data)
		return hostileColumn{kind: bytesType, values: 1, codec: codec, pages: p}.file()
	}
	column := func(kind, values int, page []byte) []byte {
		return hostileColumn{kind: kind, values: values, pages: page}.file()
	}
	indexed := func(dictionary, values int, indices ...byte) []byte {
		return hostileColumn{kind: bytesType, values: values, pages: plainPage(values, dictionaryIndex, indices),
			dictionary: page(dictionaryKind, dictionary, plain, len(one), len(one), one)}.file()
	}
	nullable := func(values int, page []byte) []byte {
		return hostileColumn{kind: bytesType, values: values, repetition: 1, pages: page}.file()
	}
	for name, file := range map[string][]byte{
		"lists of the footer": hostileFile(nil, thriftStruct{
			1: 1, 2: listOf(thriftStruct{4: "schema", 5: 0}), 3: int64(0),
			4: thriftList{99 << 20, []any{thriftStruct{1: thriftList{99 << 20, []any{thriftStruct{}}}}}},
		}),
		"children of the schema": hostileSchema(listOf(thriftStruct{4: "schema", 5: maxCount}, leaf)),
		"depth of the schema":    hostileSchema(deep),
		"dictionary's values":    indexed(maxCount, 1, 1, 2, 0),
		"missing indices":        indexed(1, maxCount, 1, 2, 0),
		"width of indices":       indexed(1, maxCount, 255, 2, 0),
		"values of a page":       column(bytesType, maxCount, plainPage(maxCount, plain, one)),
		"absent values":          nullable(maxCount, plainPage(maxCount, plain, []byte{3, 0, 0, 0, 254, 255, 1})),
		"excess values":          nullable(1, plainPage(maxCount, plain, runOfLevels(maxCount))),
		"short levels":           nullable(maxCount, plainPage(maxCount, plain, runOfLevels(10))),
		"no levels":              nullable(maxCount, plainPage(maxCount, plain, make([]byte, 4))),
		"delta, values": column(int64Type, maxCount,
			plainPage(maxCount, deltaPacked, uvarints(128, 4, maxCount, 0))),
		"delta, lengths": column(bytesType, maxCount,
			plainPage(maxCount, deltaLength, uvarints(128, 4, maxCount, 0))),
		"delta, prefixes": column(bytesType, maxCount, plainPage(maxCount, deltaText, uvarints(128, 4, maxCount, 0))),
		"delta, too many": column(bytesType, 10, plainPage(10, deltaLength, uvarints(128, 4, maxCount, 0))),
		"delta, too few":  column(int64Type, 100, plainPage(100, deltaPacked, uvarints(128, 4, 1, 0, 0), zeros)),
		"delta, large blocks": column(int64Type, 100, plainPage(100, deltaPacked, uvarints(1<<62, 1<<61, 100, 0, 0),
			zeros)),
		"delta, empty blocks":  column(bytesType, 100, plainPage(100, deltaLength, uvarints(0, 0, 100, 0, 0), zeros)),
		"delta, growing texts": column(bytesType, 500, growingValues(500)),
		"compressed size":      compressed(compress.Codecs.Zstd, 100, maxCount, zeros),
		"uncompressed size":    compressed(compress.Codecs.Zstd, maxCount, len(zeros), zeros),
		"LZ4 size":             compressed(rawLZ4, 1<<30, len(zeros), zeros),
		"snappy size":          compressed(compress.Codecs.Snappy, 100, 9, append(uvarints(0xfffffff0), 0, 0, 0, 0)),
		"excess zeros":         compressed(compress.Codecs.Zstd, 100, len(zstdZeros(4<<10)), zstdZeros(4<<10)),
		"length of a text":     column(bytesType, 1, plainPage(1, plain, []byte{0xff, 0xff, 0xff, 0x7f, 'a'})),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			checkHostile(t, file, func() error { _, err := readParquet(t, dir, file); return err })
		})
	}
}

// builder builds flatbuffers of Arrow's messages.
type builder struct{ *flatbuffers.Builder }

func newBuilder() builder { return builder{flatbuffers.NewBuilder(1024)} }

// vector writes a vector of offsets with a declared count of elements.
func (b builder) vector(count int, offsets ...flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(offsets), 4)
	for _, o := range slices.Backward(offsets) {
		b.PrependUOffsetT(o)
	}
	return b.EndVector(count)
}

// Types of fields.
const (
	nullType, integerType, structType, viewType = 1, 2, 13, 24
)

func (b builder) field(kind byte, children ...flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	name, below := b.CreateString("n"), b.vector(len(children), children...)
	b.StartObject(2)
	if kind == integerType {
		b.PrependInt32Slot(0, 64, 0)
		b.PrependBoolSlot(1, true, false)
	}
	of := b.EndObject()
	b.StartObject(7)
	b.PrependUOffsetTSlot(0, name, 0)
	b.PrependByteSlot(2, kind, 0)
	b.PrependUOffsetTSlot(3, of, 0)
	b.PrependUOffsetTSlot(5, below, 0)
	return b.EndObject()
}

// message completes a message with a header.
func (b builder) message(kind byte, header flatbuffers.UOffsetT, bodyLength int, body []byte) []byte {
	b.StartObject(5)
	b.PrependInt64Slot(3, int64(bodyLength), 0)
	b.PrependUOffsetTSlot(2, header, 0)
	b.PrependByteSlot(1, kind, 0)
	b.PrependInt16Slot(0, int16(ipc.MetadataV5)-1, 0)
	b.Finish(b.EndObject())
	meta := b.FinishedBytes()
	meta = append(meta, make([]byte, -len(meta)&7)...)
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(meta)))
	return slices.Concat([]byte{0xff, 0xff, 0xff, 0xff}, length, meta, body)
}

// schema returns a schema message with vectors of fields and metadata.
func (b builder) schema(fields, metadata flatbuffers.UOffsetT) []byte {
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, fields, 0)
	if metadata > 0 {
		b.PrependUOffsetTSlot(2, metadata, 0)
	}
	return b.message(1, b.EndObject(), 0, nil)
}

func schemaOf(kind byte) []byte {
	b := newBuilder()
	return b.schema(b.vector(1, b.field(kind)), 0)
}

// batch returns a message of one column with a buffer of values. The arguments are its rows, the buffer's offset and
// length, and the number of buffers of views.
func batch(rows, buffer, length int64, zstd bool, views int64, bodyLength int, body []byte) []byte {
	b := newBuilder()
	b.StartVector(8, 1, 8)
	b.PrependInt64(views)
	counts := b.EndVector(1)
	b.StartVector(16, 2, 8)
	for _, v := range []int64{length, buffer, 0, 0} {
		b.PrependInt64(v)
	}
	buffers := b.EndVector(2)
	b.StartVector(16, 1, 8)
	b.PrependInt64(0)
	b.PrependInt64(rows)
	nodes := b.EndVector(1)
	b.StartObject(2)
	b.PrependByteSlot(0, 1, 0)
	compression := b.EndObject()
	b.StartObject(5)
	b.PrependInt64Slot(0, rows, 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependUOffsetTSlot(2, buffers, 0)
	if zstd {
		b.PrependUOffsetTSlot(3, compression, 0)
	}
	if views > 0 {
		b.PrependUOffsetTSlot(4, counts, 0)
	}
	return b.message(3, b.EndObject(), bodyLength, body)
}

// nested returns a schema with depth levels, in which each field has times references to the same child.
func nested(depth, times int) []byte {
	b := newBuilder()
	field := b.field(integerType)
	for range depth {
		field = b.field(structType, slices.Repeat([]flatbuffers.UOffsetT{field}, times)...)
	}
	return b.schema(b.vector(1, field), 0)
}

func TestArrow_HostileDataUsesBoundedMemory(t *testing.T) {
	fields := newBuilder()
	metadata := newBuilder()
	pair := metadata.CreateString("k")
	metadata.StartObject(2)
	metadata.PrependUOffsetTSlot(0, pair, 0)
	pair = metadata.EndObject()
	body := make([]byte, 8)
	long := append(binary.LittleEndian.AppendUint64(nil, 1<<40), zstdZeros(1)...)
	long = append(long, make([]byte, -len(long)&7)...)
	for name, data := range map[string][]byte{
		"length of a message": append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f}, make([]byte, 100)...),
		"length of a body":    slices.Concat(schemaOf(integerType), batch(1, 0, 8, false, 0, 1<<30, body)),
		"long body":           slices.Concat(schemaOf(integerType), batch(1, 0, 8, false, 0, 1<<40, body)),
		"fields":              fields.schema(fields.vector(1<<28, fields.field(integerType)), 0),
		"metadata":            metadata.schema(metadata.vector(1, metadata.field(integerType)), metadata.vector(1<<26, pair)),
		"shared children":     nested(30, 2),
		"depth of the schema": nested(10_000, 1),
		"rows":                slices.Concat(schemaOf(integerType), batch(1<<40, 0, 8, false, 0, len(body), body)),
		"negative rows":       slices.Concat(schemaOf(integerType), batch(-1, 0, 8, false, 0, len(body), body)),
		"rows without bytes":  slices.Concat(schemaOf(nullType), batch(1<<40, 0, 0, false, 0, 0, nil)),
		"place of a buffer":   slices.Concat(schemaOf(integerType), batch(1, 1<<40, 8, false, 0, len(body), body)),
		"uncompressed length": slices.Concat(schemaOf(integerType), batch(1, 0, int64(len(long)), true, 0, len(long), long)),
		"buffers of views":    slices.Concat(schemaOf(viewType), batch(1, 0, 8, false, 1<<28, len(body), body)),
		"excess views":        slices.Concat(schemaOf(viewType), batch(1, 0, 8, false, 1<<40, len(body), body)),
	} {
		t.Run(name, func(t *testing.T) {
			checkHostile(t, data, func() error { _, err := readArrow(bytes.Clone(data)); return err })
		})
	}
}
