package batch

import (
	"bytes"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/bitutil"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"loaderd/loader/document"
	"loaderd/loader/runconfig"
)

// columnOverhead bounds what a column adds to the headers of a batch's messages and to the padding between its buffers.
const columnOverhead = 1 << 10

var tokenTypes = map[string]arrow.DataType{
	runconfig.ColumnFloat16: arrow.FixedWidthTypes.Float16, runconfig.ColumnFloat32: arrow.PrimitiveTypes.Float32,
	runconfig.ColumnInt8: arrow.PrimitiveTypes.Int8, runconfig.ColumnInt16: arrow.PrimitiveTypes.Int16,
	runconfig.ColumnInt32: arrow.PrimitiveTypes.Int32,
	runconfig.ColumnBool:  arrow.FixedWidthTypes.Boolean,
}

// textType is the type of texts of documents. It is a dictionary because many pieces have the same text.
var textType = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}

// extraColumns returns the columns of what documents have in addition to their tokens.
func extraColumns(c runconfig.Documents) (out []Column) {
	for place, name := range c.TokenColumns() {
		x := tokenColumn{index: place, width: c.Columns[name].ValueBytes(), fill: document.FillValue(c.Columns[name]),
			typ: tokenTypes[c.Columns[name].Type]}
		out = append(out, Column{TicketName: name, name: name, Type: arrow.ListOf(x.typ),
			bits: x.typ.(arrow.FixedWidthDataType).BitWidth(), perBatch: columnOverhead, build: x.build})
	}
	for place, name := range c.MetaColumns() {
		out = append(out, metaColumn(place, name, c.Meta[name]))
	}
	return out
}

// tokenColumn is a column with one value per token.
type tokenColumn struct {
	index, width int
	fill         []byte
	typ          arrow.DataType
}

func (c tokenColumn) build(l layout) (arrow.ArrayData, error) {
	out := bytes.Repeat(c.fill, l.Rows*l.Bucket)
	for i, pieces := range l.Pieces {
		at := i * l.Bucket * c.width
		for _, p := range pieces {
			copy(out[at:], l.Contents[p.Doc].ColumnValues(c.index, c.width, p.Start, p.Length))
			at += int(p.Length) * c.width
		}
	}
	if c.typ == arrow.FixedWidthTypes.Boolean {
		out = packBits(out)
	}
	return slotList(l, c.typ, out), nil
}

// packBits returns bools as bits, eight per byte.
func packBits(values []byte) []byte {
	out := make([]byte, bitutil.BytesForBits(int64(len(values))))
	for i, v := range values {
		if v != 0 {
			bitutil.SetBit(out, i)
		}
	}
	return out
}

// metaColumn returns a column of document values, one per piece.
func metaColumn(place int, name, typ string) Column {
	const index, offset, valid = 4, 4, 1
	c := Column{TicketName: name, name: name, perBatch: columnOverhead}
	switch typ {
	case runconfig.MetaString:
		c.Type, c.perPiece = arrow.ListOf(textType), index+offset+valid+runconfig.MaxMetaBytes
		c.build = func(l layout) (arrow.ArrayData, error) { return textValues(l, place), nil }
	case runconfig.MetaInt64:
		c.Type, c.perPiece = arrow.ListOf(arrow.PrimitiveTypes.Int64), 8+valid
		c.build = func(l layout) (arrow.ArrayData, error) {
			return numberValues(l, place, arrow.PrimitiveTypes.Int64, arrow.Int64Traits.CastToBytes), nil
		}
	default:
		c.Type, c.perPiece = arrow.ListOf(arrow.PrimitiveTypes.Float64), 8+valid
		c.build = func(l layout) (arrow.ArrayData, error) {
			return numberValues(l, place, arrow.PrimitiveTypes.Float64, arrow.Float64Traits.CastToBytes), nil
		}
	}
	return c
}

// textValues returns the texts of the pieces as a dictionary without duplicates, in the order of first occurrence.
func textValues(l layout, place int) arrow.ArrayData {
	places := map[string]int32{}
	var offsets = []int32{0}
	var all []byte
	data := pieceValues(l, place, textType, arrow.Int32Traits.CastToBytes, func(value any) int32 {
		text := value.(string)
		at, ok := places[text]
		if !ok {
			at = int32(len(places))
			places[text] = at
			all = append(all, text...)
			offsets = append(offsets, int32(len(all)))
		}
		return at
	})
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)),
		memory.NewBufferBytes(all)}
	data.Children()[0].(*array.Data).SetDictionary(array.NewData(arrow.BinaryTypes.String, len(places), buffers,
		nil, 0, 0))
	return data
}

// numberValues returns the numbers of the pieces.
func numberValues[T any](l layout, place int, typ arrow.DataType, asBytes func([]T) []byte) arrow.ArrayData {
	return pieceValues(l, place, typ, asBytes, func(value any) T { return value.(T) })
}

// pieceValues returns a list column with the document's value for every piece, or null if it has none.
func pieceValues[T any](l layout, place int, typ arrow.DataType, asBytes func([]T) []byte,
	of func(value any) T) arrow.ArrayData {
	var missing []int // indexes of pieces without a value
	n := 0
	data := pieceList(l, typ, func(row, piece int) (out T) {
		p := l.Pieces[row][piece]
		if value := l.Contents[p.Doc].MetaValue(place, p.Start); value != nil {
			out = of(value)
		} else {
			missing = append(missing, n)
		}
		n++
		return out
	}, asBytes)
	if len(missing) == 0 {
		return data
	}
	valid := slices.Repeat([]byte{0xff}, int(bitutil.BytesForBits(int64(n))))
	for _, i := range missing {
		bitutil.ClearBit(valid, i)
	}
	values := data.Children()[0]
	buffers := append([]*memory.Buffer{memory.NewBufferBytes(valid)}, values.Buffers()[1:]...)
	list := data.Buffers()
	return array.NewData(arrow.ListOf(typ), data.Len(), list,
		[]arrow.ArrayData{array.NewData(typ, n, buffers, nil, len(missing), 0)}, 0, 0)
}
