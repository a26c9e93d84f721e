package flightclient

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"loaderd/internal/api"
)

// Batch is one record batch: Rows rows of L tokens each, stored row by row. Columns that the ticket did not request
// are nil. The caller may keep a batch unless Options.Reuse is set.
type Batch struct {
	Meta        api.Metadata
	Rows, L     int
	InputIDs    []int32  // Rows*L
	SegmentIDs  []uint16 // Rows*L; 1, 2, ... and 0 for padding
	PositionIDs []int32  // Rows*L
	Labels      []int32  // Rows*L; -100 on padding
	CuSeqlens   [][]int32
	Documents   [][]api.Piece // of each row
	Sources     [][]uint16    // of each row's pieces, as indices into the sources of info
}

// decodeBatch reads a record and checks that the shapes of its columns match its metadata.
func decodeBatch(r arrow.Record, metadata []byte) (Batch, error) {
	var b Batch
	if err := json.Unmarshal(bytes.TrimSpace(metadata), &b.Meta); err != nil {
		return b, fmt.Errorf("app_metadata: %w", err)
	}
	b.Rows, b.L = b.Meta.Rows, b.Meta.Bucket
	if r.NumRows() != int64(b.Rows) || b.L < 1 {
		return b, fmt.Errorf("step %d: %d rows, the metadata states %d of %d tokens", b.Meta.Step, r.NumRows(), b.Rows, b.L)
	}
	for i, field := range r.Schema().Fields() {
		column, ok := r.Column(i).(*array.List)
		if !ok {
			return b, fmt.Errorf("step %d: column %s is %s, want a list", b.Meta.Step, field.Name, field.Type)
		}
		if err := b.setColumn(field.Name, column); err != nil {
			return b, fmt.Errorf("step %d: column %s: %w", b.Meta.Step, field.Name, err)
		}
	}
	return b, nil
}

func (b *Batch) setColumn(name string, column *array.List) (err error) {
	switch name {
	case "input_ids":
		b.InputIDs, err = b.tokenValues(column)
	case "position_ids":
		b.PositionIDs, err = b.tokenValues(column)
	case "labels":
		b.Labels, err = b.tokenValues(column)
	case "segment_ids":
		values, ok := column.ListValues().(*array.Uint16)
		if !ok {
			return fmt.Errorf("has values of %s, want uint16", column.ListValues().DataType())
		}
		if err = b.checkRowLengths(column); err == nil {
			b.SegmentIDs = values.Uint16Values()
		}
	case "cu_seqlens":
		values, ok := column.ListValues().(*array.Int32)
		if !ok {
			return fmt.Errorf("has values of %s, want int32", column.ListValues().DataType())
		}
		b.CuSeqlens, err = listRows(column, values.Int32Values())
	case "sources":
		values, ok := column.ListValues().(*array.Uint16)
		if !ok {
			return fmt.Errorf("has values of %s, want uint16", column.ListValues().DataType())
		}
		b.Sources, err = listRows(column, values.Uint16Values())
	case "documents":
		b.Documents, err = pieces(column)
	}
	return err
}

// tokenValues returns a column with one value per token, converted to int32.
func (b *Batch) tokenValues(column *array.List) ([]int32, error) {
	if err := b.checkRowLengths(column); err != nil {
		return nil, err
	}
	switch values := column.ListValues().(type) {
	case *array.Int32:
		return values.Int32Values(), nil
	case *array.Uint16:
		wide := make([]int32, values.Len())
		for i, v := range values.Uint16Values() {
			wide[i] = int32(v)
		}
		return wide, nil
	default:
		return nil, fmt.Errorf("has values of %s, want int32 or uint16", values.DataType())
	}
}

// checkRowLengths checks that every row has L contiguous values.
func (b *Batch) checkRowLengths(column *array.List) error {
	for i := range b.Rows {
		if from, to := column.ValueOffsets(i); from != int64(i*b.L) || to != int64((i+1)*b.L) {
			return fmt.Errorf("row %d has values %d to %d, want rows of %d", i, from, to, b.L)
		}
	}
	if n := column.ListValues().Len(); n != b.Rows*b.L {
		return fmt.Errorf("has %d values, want %d rows of %d", n, b.Rows, b.L)
	}
	return nil
}

// listRows returns the values of each row.
func listRows[T any](column *array.List, values []T) ([][]T, error) {
	var rows [][]T
	for i := range column.Len() {
		from, to, err := rowRange(column, i)
		if err != nil {
			return nil, err
		}
		rows = append(rows, values[from:to])
	}
	return rows, nil
}

func pieces(column *array.List) ([][]api.Piece, error) {
	values, ok := column.ListValues().(*array.Struct)
	if !ok || values.NumField() != 3 {
		return nil, fmt.Errorf("has values of %s, want {sequence, start, length}", column.ListValues().DataType())
	}
	sequences, ok1 := values.Field(0).(*array.Uint64)
	starts, ok2 := values.Field(1).(*array.Int32)
	lengths, ok3 := values.Field(2).(*array.Int32)
	if !ok1 || !ok2 || !ok3 {
		return nil, fmt.Errorf("has values of %s, want {sequence: uint64, start: int32, length: int32}", values.DataType())
	}
	rows := make([][]api.Piece, column.Len())
	for i := range rows {
		from, to, err := rowRange(column, i)
		if err != nil {
			return nil, err
		}
		rows[i] = make([]api.Piece, 0, to-from)
		for k := from; k < to; k++ {
			rows[i] = append(rows[i], api.Piece{Sequence: sequences.Value(k), Start: starts.Value(k), Length: lengths.Value(k)})
		}
	}
	return rows, nil
}

// rowRange returns the values of row i: [from, to). It checks the offsets, which may be invalid.
func rowRange(column *array.List, i int) (from, to int, err error) {
	a, b := column.ValueOffsets(i)
	if n := column.ListValues().Len(); a < 0 || b < a || b > int64(n) {
		return 0, 0, fmt.Errorf("row %d has values %d to %d of %d", i, a, b, n)
	}
	return int(a), int(b), nil
}
