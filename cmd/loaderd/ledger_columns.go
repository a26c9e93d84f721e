package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/loader"
)

// usedPiece is a piece of a row, with where its document came from if that is known.
type usedPiece struct {
	step   uint64
	bucket int
	row    int
	piece  ledgerPiece
	from   loader.DocumentInfo
}

func (s ledgerStep) pieces() (out []usedPiece) {
	from := map[uint64]loader.DocumentInfo{}
	for _, d := range s.Documents {
		from[d.Sequence] = d
	}
	for i, row := range s.Rows {
		for _, p := range row {
			out = append(out, usedPiece{s.Step, s.Bucket, i, p, from[p.Sequence]})
		}
	}
	return out
}

func foundPieces(found []ledgerFound) (out []usedPiece) {
	for _, f := range found {
		for _, p := range f.Pieces {
			out = append(out, usedPiece{f.Step, f.Bucket, f.Row, p, loader.DocumentInfo{}})
		}
	}
	return out
}

// ledgerSchema has one row a piece; what is not known of a document is empty.
var ledgerSchema = arrow.NewSchema([]arrow.Field{
	{Name: "step", Type: arrow.PrimitiveTypes.Uint64},
	{Name: "bucket", Type: arrow.PrimitiveTypes.Int32},
	{Name: "row", Type: arrow.PrimitiveTypes.Int32},
	{Name: "sequence", Type: arrow.PrimitiveTypes.Uint64},
	{Name: "start", Type: arrow.PrimitiveTypes.Int32},
	{Name: "length", Type: arrow.PrimitiveTypes.Int32},
	{Name: "subject", Type: arrow.BinaryTypes.String},
	{Name: "id", Type: arrow.BinaryTypes.String},
	{Name: "path", Type: arrow.BinaryTypes.String},
	{Name: "domain", Type: arrow.BinaryTypes.String},
}, nil)

func ledgerRecord(pieces []usedPiece) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, ledgerSchema)
	defer b.Release()
	text := func(i int, s string) { b.Field(i).(*array.StringBuilder).Append(s) }
	number := func(i, n int) { b.Field(i).(*array.Int32Builder).Append(int32(n)) }
	for _, p := range pieces {
		b.Field(0).(*array.Uint64Builder).Append(p.step)
		number(1, p.bucket)
		number(2, p.row)
		b.Field(3).(*array.Uint64Builder).Append(p.piece.Sequence)
		number(4, p.piece.Start)
		number(5, p.piece.Length)
		text(6, p.from.Subject)
		text(7, p.from.ID)
		text(8, p.from.Path)
		text(9, p.from.Domain)
	}
	return b.NewRecord()
}

func writeArrow(w io.Writer, pieces []usedPiece) error {
	record := ledgerRecord(pieces)
	defer record.Release()
	out := ipc.NewWriter(w, ipc.WithSchema(ledgerSchema))
	if err := out.Write(record); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return out.Close()
}

func writeParquet(w io.Writer, pieces []usedPiece) error {
	record := ledgerRecord(pieces)
	defer record.Release()
	var file bytes.Buffer // the parquet library panics where its writer fails
	out, err := pqarrow.NewFileWriter(ledgerSchema, &file, nil, pqarrow.DefaultWriterProps())
	if err == nil {
		err = errors.Join(out.Write(record), out.Close())
	}
	if err == nil {
		_, err = w.Write(file.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}
