package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/arrowout/answers"
	"loaderd/loader"
)

// usedPiece is a piece of a row, with where its document came from if that is known.
type usedPiece struct {
	step   uint64
	bucket int
	row    int
	piece  answers.Piece
	from   loader.DocumentInfo
}

// stepPieces makes a writer of pieces one of steps.
func stepPieces(write func(io.Writer, []usedPiece) error) func(io.Writer, Step) error {
	return func(w io.Writer, s Step) error {
		var used []usedPiece
		from := s.origins()
		for i, row := range s.Rows {
			for _, p := range row {
				used = append(used, usedPiece{s.Index, s.Bucket, i, p.Piece, from[document{p.Source, p.Sequence}]})
			}
		}
		return write(w, used)
	}
}

// foundPieces makes a writer of pieces one of what was found of a document.
func foundPieces(write func(io.Writer, []usedPiece) error) func(io.Writer, []answers.Found) error {
	return func(w io.Writer, found []answers.Found) error {
		var used []usedPiece
		for _, f := range found {
			for _, p := range f.Pieces {
				used = append(used, usedPiece{f.Step, f.Bucket, f.Row, p, loader.DocumentInfo{}})
			}
		}
		return write(w, used)
	}
}

// schema has one row a piece; what is not known of a document is empty.
var fields = []arrow.Field{
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
}

// schemaOf has the source of a run with several behind what all have.
func schemaOf(pieces []usedPiece) *arrow.Schema {
	all := fields
	if len(pieces) > 0 && pieces[0].piece.Source != "" {
		all = append(slices.Clone(fields), arrow.Field{Name: "source", Type: arrow.BinaryTypes.String})
	}
	return arrow.NewSchema(all, nil)
}

func record(pieces []usedPiece) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schemaOf(pieces))
	defer b.Release()
	text := func(i int, s string) { b.Field(i).(*array.StringBuilder).Append(s) }
	number := func(i int, n int32) { b.Field(i).(*array.Int32Builder).Append(n) }
	for _, p := range pieces {
		b.Field(0).(*array.Uint64Builder).Append(p.step)
		number(1, int32(p.bucket))
		number(2, int32(p.row))
		b.Field(3).(*array.Uint64Builder).Append(p.piece.Sequence)
		number(4, p.piece.Start)
		number(5, p.piece.Length)
		text(6, p.from.Subject)
		text(7, p.from.ID)
		text(8, p.from.Path)
		text(9, p.from.Domain)
		if p.piece.Source != "" {
			text(10, p.piece.Source)
		}
	}
	return b.NewRecord()
}

func writeArrow(w io.Writer, pieces []usedPiece) error {
	rec := record(pieces)
	defer rec.Release()
	out := ipc.NewWriter(w, ipc.WithSchema(rec.Schema()))
	if err := out.Write(rec); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return out.Close()
}

func writeParquet(w io.Writer, pieces []usedPiece) error {
	rec := record(pieces)
	defer rec.Release()
	var file bytes.Buffer // the parquet library panics where its writer fails
	out, err := pqarrow.NewFileWriter(rec.Schema(), &file, nil, pqarrow.DefaultWriterProps())
	if err == nil {
		err = errors.Join(out.Write(rec), out.Close())
	}
	if err == nil {
		_, err = w.Write(file.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}
