package export

import (
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// rowGroupBytes is the size of a row group's values, in bytes. A row group is buffered in memory.
const rowGroupBytes = 32 << 20

// parquetFile writes columns one by one. The library's function for records requires its compute kernels, which would
// be a sixth of the program's size.
type parquetFile struct {
	file     *os.File
	out      *file.Writer
	buffered []arrow.Record
	size     int
}

func newParquet(name string, s *arrow.Schema) (writer, error) {
	var nodes schema.FieldList
	for _, f := range s.Fields() {
		n, err := parquetNode(f.Name, f.Type, false)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, nodes, -1)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy), parquet.WithStats(false))
	return &parquetFile{file: f, out: file.NewParquetWriter(f, root, file.WithWriterProps(properties))}, nil
}

// parquetNode returns the schema of a column: a number, or a list of values. Documents' values may be null.
func parquetNode(name string, t arrow.DataType, nullable bool) (schema.Node, error) {
	switch t := t.(type) {
	case *arrow.ListType:
		element, err := parquetNode("element", t.Elem(), isDocumentValue(t.Elem()))
		if err != nil {
			return nil, err
		}
		list, err := schema.NewGroupNode("list", parquet.Repetitions.Repeated, schema.FieldList{element}, -1)
		if err != nil {
			return nil, err
		}
		return schema.NewGroupNodeLogical(name, parquet.Repetitions.Required, schema.FieldList{list},
			schema.NewListLogicalType(), -1)
	case *arrow.StructType:
		var nodes schema.FieldList
		for _, f := range t.Fields() {
			n, err := parquetNode(f.Name, f.Type, false)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, n)
		}
		return schema.NewGroupNode(name, parquet.Repetitions.Required, nodes, -1)
	}
	repetition, length := parquet.Repetitions.Required, -1
	if nullable {
		repetition = parquet.Repetitions.Optional
	}
	var logical schema.LogicalType = schema.NoLogicalType{}
	var physical parquet.Type
	switch t.ID() {
	case arrow.INT8:
		logical, physical = schema.NewIntLogicalType(8, true), parquet.Types.Int32
	case arrow.INT16:
		logical, physical = schema.NewIntLogicalType(16, true), parquet.Types.Int32
	case arrow.UINT16:
		logical, physical = schema.NewIntLogicalType(16, false), parquet.Types.Int32
	case arrow.INT32:
		physical = parquet.Types.Int32
	case arrow.INT64:
		physical = parquet.Types.Int64
	case arrow.UINT64:
		logical, physical = schema.NewIntLogicalType(64, false), parquet.Types.Int64
	case arrow.BOOL:
		physical = parquet.Types.Boolean
	case arrow.FLOAT16:
		logical, physical, length = schema.Float16LogicalType{}, parquet.Types.FixedLenByteArray, 2
	case arrow.FLOAT32:
		physical = parquet.Types.Float
	case arrow.FLOAT64:
		physical = parquet.Types.Double
	case arrow.STRING:
		logical, physical = schema.StringLogicalType{}, parquet.Types.ByteArray
	default:
		return nil, fmt.Errorf("column %s has the type %s, which is not written", name, t)
	}
	return schema.NewPrimitiveNodeLogical(name, repetition, logical, physical, length, -1)
}

// isDocumentValue reports whether a type is that of documents' values, which may be null.
func isDocumentValue(t arrow.DataType) bool {
	return t.ID() == arrow.STRING || t.ID() == arrow.INT64 || t.ID() == arrow.FLOAT64
}

func (p *parquetFile) Write(r arrow.Record) error {
	r.Retain()
	p.buffered = append(p.buffered, r)
	for _, c := range r.Columns() {
		p.size += arrayBytes(c.Data())
	}
	if p.size < rowGroupBytes {
		return nil
	}
	return p.flush()
}

// arrayBytes returns the memory size of an array's values, in bytes.
func arrayBytes(d arrow.ArrayData) (n int) {
	for _, b := range d.Buffers() {
		if b != nil {
			n += b.Len()
		}
	}
	for _, c := range d.Children() {
		n += arrayBytes(c)
	}
	return n
}

// flush writes the buffered records as a row group.
func (p *parquetFile) flush() error {
	if len(p.buffered) == 0 {
		return nil
	}
	group := p.out.AppendRowGroup()
	for i := range p.buffered[0].Columns() {
		if err := p.writeColumn(group, i); err != nil {
			return err
		}
	}
	for _, r := range p.buffered {
		r.Release()
	}
	p.buffered, p.size = nil, 0
	return group.Close()
}

// writeColumn writes all leaf columns of a column.
func (p *parquetFile) writeColumn(group file.SerialRowGroupWriter, i int) error {
	leaves := 1
	if list, ok := p.buffered[0].Column(i).DataType().(*arrow.ListType); ok {
		if s, ok := list.Elem().(*arrow.StructType); ok {
			leaves = s.NumFields()
		}
	}
	for leaf := range leaves {
		column, err := group.NextColumn()
		if err != nil {
			return err
		}
		for _, r := range p.buffered {
			if err = writeLeaf(column, r.Column(i), leaf); err != nil {
				break
			}
		}
		if err := errors.Join(err, column.Close()); err != nil {
			return err
		}
	}
	return nil
}

// writeLeaf writes the values of a leaf column.
func writeLeaf(column file.ColumnChunkWriter, a arrow.Array, leaf int) error {
	if _, ok := a.(*array.List); !ok {
		return writeValues(column, a, nil, nil)
	}
	offsets, values := listRows(a)
	if s, ok := values.(*array.Struct); ok {
		values = s.Field(leaf)
	}
	present := column.Descr().MaxDefinitionLevel()
	var def, rep []int16
	for row := range len(offsets) - 1 {
		if offsets[row] == offsets[row+1] {
			def, rep = append(def, 0), append(rep, 0)
		}
		for k := offsets[row]; k < offsets[row+1]; k++ {
			level := int16(1)
			if k > offsets[row] {
				rep = append(rep, 1)
			} else {
				rep = append(rep, 0)
			}
			if present > 1 && values.IsValid(int(k)) {
				level = present
			}
			def = append(def, level)
		}
	}
	return writeValues(column, values, def, rep)
}

// writeValues writes the values of an array that are not null.
func writeValues(column file.ColumnChunkWriter, a arrow.Array, def, rep []int16) (err error) {
	switch w := column.(type) {
	case *file.Int32ColumnChunkWriter:
		_, err = w.WriteBatch(toInt32(a), def, rep)
	case *file.Int64ColumnChunkWriter:
		_, err = w.WriteBatch(nonNull(a, arrow.Int64Traits.CastFromBytes(valueBytes(a))), def, rep)
	case *file.Float32ColumnChunkWriter:
		_, err = w.WriteBatch(arrow.Float32Traits.CastFromBytes(valueBytes(a)), def, rep)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(nonNull(a, arrow.Float64Traits.CastFromBytes(valueBytes(a))), def, rep)
	case *file.BooleanColumnChunkWriter:
		bits := make([]bool, a.Len())
		for i := range bits {
			bits[i] = a.(*array.Boolean).Value(i)
		}
		_, err = w.WriteBatch(bits, def, rep)
	case *file.FixedLenByteArrayColumnChunkWriter:
		data := valueBytes(a)
		values := make([]parquet.FixedLenByteArray, a.Len())
		for i := range values {
			values[i] = data[2*i : 2*i+2]
		}
		_, err = w.WriteBatch(values, def, rep)
	case *file.ByteArrayColumnChunkWriter:
		texts := a.(*array.String)
		var values []parquet.ByteArray
		for i := range texts.Len() {
			if texts.IsValid(i) {
				values = append(values, parquet.ByteArray(texts.Value(i)))
			}
		}
		_, err = w.WriteBatch(values, def, rep)
	default:
		err = fmt.Errorf("values of %s are not written", a.DataType())
	}
	return err
}

// nonNull returns the values that are not null.
func nonNull[T any](a arrow.Array, values []T) []T {
	if a.NullN() == 0 {
		return values
	}
	var there []T
	for i, v := range values {
		if a.IsValid(i) {
			there = append(there, v)
		}
	}
	return there
}

// toInt32 returns integers of up to 32 bits as int32.
func toInt32(a arrow.Array) []int32 {
	switch a := a.(type) {
	case *array.Int32:
		return a.Int32Values()
	case *array.Uint16:
		return widenInts(a.Uint16Values())
	case *array.Int16:
		return widenInts(a.Int16Values())
	case *array.Int8:
		return widenInts(a.Int8Values())
	}
	return nil
}

func widenInts[T uint16 | int16 | int8](values []T) []int32 {
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(v)
	}
	return out
}

func (p *parquetFile) Close() error {
	err := p.flush()
	if err != nil {
		return errors.Join(err, p.file.Close())
	}
	return p.out.Close() // closes the file too
}
