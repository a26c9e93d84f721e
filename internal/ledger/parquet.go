package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// writeParquet writes columns one by one. The library's function for records requires its compute kernels, which
// would be a sixth of the program's size.
func writeParquet(w io.Writer, pieces []usedPiece) error {
	rec := newRecord(pieces)
	defer rec.Release()
	var out bytes.Buffer // the library panics if its writer fails
	if err := writeColumns(&out, rec); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

func writeColumns(w io.Writer, rec arrow.Record) error {
	var nodes schema.FieldList
	for _, f := range rec.Schema().Fields() {
		n, err := parquetNode(f)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, nodes, -1)
	if err != nil {
		return err
	}
	out := file.NewParquetWriter(w, root)
	group := out.AppendRowGroup()
	for i := range int(rec.NumCols()) {
		column, err := group.NextColumn()
		if err != nil {
			return err
		}
		if err := errors.Join(writeColumn(column, rec.Column(i)), column.Close()); err != nil {
			return err
		}
	}
	return errors.Join(group.Close(), out.Close())
}

func parquetNode(f arrow.Field) (schema.Node, error) {
	repetition := parquet.Repetitions.Required
	if f.Nullable {
		repetition = parquet.Repetitions.Optional
	}
	var logical schema.LogicalType
	physical := parquet.Types.ByteArray
	switch f.Type.ID() {
	case arrow.UINT64:
		logical, physical = schema.NewIntLogicalType(64, false), parquet.Types.Int64
	case arrow.INT32:
		logical, physical = schema.NewIntLogicalType(32, true), parquet.Types.Int32
	case arrow.FLOAT32:
		logical, physical = schema.NoLogicalType{}, parquet.Types.Float
	case arrow.STRING:
		logical = schema.StringLogicalType{}
	default:
		return nil, fmt.Errorf("column %s has the type %s, which is not written", f.Name, f.Type)
	}
	return schema.NewPrimitiveNodeLogical(f.Name, repetition, logical, physical, -1, -1)
}

func writeColumn(column file.ColumnChunkWriter, values arrow.Array) (err error) {
	switch a := values.(type) {
	case *array.Uint64:
		signed := make([]int64, a.Len())
		for i, v := range a.Uint64Values() {
			signed[i] = int64(v)
		}
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch(signed, nil, nil)
	case *array.Int32:
		there, levels := nonNull(a, a.Value)
		_, err = column.(*file.Int32ColumnChunkWriter).WriteBatch(there, levels, nil)
	case *array.String:
		texts := make([]parquet.ByteArray, a.Len())
		for i := range texts {
			texts[i] = parquet.ByteArray(a.Value(i))
		}
		_, err = column.(*file.ByteArrayColumnChunkWriter).WriteBatch(texts, nil, nil)
	case *array.Float32:
		there, levels := nonNull(a, a.Value)
		_, err = column.(*file.Float32ColumnChunkWriter).WriteBatch(there, levels, nil)
	}
	return err
}

// nonNull returns the values of a column that are not null, and a definition level for each row: 1 for a value, 0 for
// null. Callers ignore levels for columns that cannot be null.
func nonNull[T any](a arrow.Array, value func(int) T) (there []T, levels []int16) {
	levels = make([]int16, a.Len())
	for i := range levels {
		if a.IsValid(i) {
			there, levels[i] = append(there, value(i)), 1
		}
	}
	return there, levels
}
