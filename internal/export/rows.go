package export

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Additional first columns of the files, which identify a row.
const (
	stepColumn   = "step"
	rowColumn    = "row"
	bucketColumn = "bucket"
)

// addPositionColumns returns a batch with the position of each row in additional first columns. It replaces
// dictionary-encoded texts by plain texts, because not every format supports dictionaries.
func addPositionColumns(r arrow.Record, step uint64, bucket, first int32) (arrow.Record, error) {
	n := int(r.NumRows())
	steps, rows, buckets := make([]int64, n), make([]int32, n), make([]int32, n)
	for i := range n {
		steps[i], rows[i], buckets[i] = int64(step), first+int32(i), bucket
	}
	fields := []arrow.Field{{Name: stepColumn, Type: arrow.PrimitiveTypes.Int64},
		{Name: rowColumn, Type: arrow.PrimitiveTypes.Int32},
		{Name: bucketColumn, Type: arrow.PrimitiveTypes.Int32}}
	columns := []arrow.Array{int64s(steps), int32s(rows), int32s(buckets)}
	for i, f := range r.Schema().Fields() {
		list, ok := r.Column(i).(*array.List)
		if f.Name == stepColumn || f.Name == rowColumn || f.Name == bucketColumn {
			return nil, fmt.Errorf("the run has a column %s, as the files do: leave it out with --columns", f.Name)
		}
		if !ok {
			return nil, fmt.Errorf("column %s is %s, want a list", f.Name, f.Type)
		}
		if texts, ok := list.ListValues().(*array.Dictionary); ok {
			list = plainTexts(list, texts)
		} else {
			list.Retain()
		}
		fields = append(fields, arrow.Field{Name: f.Name, Type: list.DataType()})
		columns = append(columns, list)
	}
	out := array.NewRecord(arrow.NewSchema(fields, nil), columns, r.NumRows())
	for _, c := range columns {
		c.Release()
	}
	return out, nil
}

func int64s(values []int64) arrow.Array {
	return array.NewInt64Data(array.NewData(arrow.PrimitiveTypes.Int64, len(values),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(values))}, nil, 0, 0))
}

func int32s(values []int32) arrow.Array {
	return array.NewInt32Data(array.NewData(arrow.PrimitiveTypes.Int32, len(values),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(values))}, nil, 0, 0))
}

// plainTexts returns a list of texts without dictionary encoding.
func plainTexts(list *array.List, texts *array.Dictionary) *array.List {
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.BinaryTypes.String)
	defer b.Release()
	values := b.ValueBuilder().(*array.StringBuilder)
	words := texts.Dictionary().(*array.String)
	for i := range list.Len() {
		b.Append(true)
		from, to := list.ValueOffsets(i)
		for k := int(from); k < int(to); k++ {
			if texts.IsNull(k) {
				values.AppendNull()
			} else {
				values.Append(words.Value(texts.GetValueIndex(k)))
			}
		}
	}
	return b.NewListArray()
}

// listRows returns the rows of a list column: values of these rows only, and the offsets of the rows in them.
func listRows(column arrow.Array) (offsets []int32, values arrow.Array) {
	list := column.(*array.List)
	offsets = make([]int32, list.Len()+1)
	for i := range list.Len() {
		from, to := list.ValueOffsets(i)
		if i == 0 {
			offsets[0] = int32(from)
		}
		offsets[i+1] = int32(to)
	}
	first := offsets[0]
	values = array.NewSlice(list.ListValues(), int64(first), int64(offsets[len(offsets)-1]))
	for i := range offsets {
		offsets[i] -= first
	}
	return offsets, values
}

// valueBytes returns the memory of an array of fixed-width values without copying. Booleans are converted to a byte
// each.
func valueBytes(a arrow.Array) []byte {
	if bits, ok := a.(*array.Boolean); ok {
		out := make([]byte, bits.Len())
		for i := range out {
			if bits.Value(i) {
				out[i] = 1
			}
		}
		return out
	}
	width := a.DataType().(arrow.FixedWidthDataType).BitWidth() / 8
	memory := a.Data().Buffers()[1]
	if memory == nil || a.Len() == 0 {
		return nil
	}
	at := a.Data().Offset()
	return memory.Bytes()[at*width : (at+a.Len())*width]
}
