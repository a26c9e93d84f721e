package ledger

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"loaderd/internal/api"
	"loaderd/loader/document"
)

// usedPiece is a piece of a row, with the origin of its document if that is known.
type usedPiece struct {
	step   uint64
	bucket int
	row    int
	piece  api.Piece
	from   document.Info
}

// stepPieces converts a writer of pieces to a writer of steps.
func stepPieces(write func(io.Writer, []usedPiece) error) func(io.Writer, Step) error {
	return func(w io.Writer, s Step) error {
		var used []usedPiece
		from := s.origins()
		for i, row := range s.Rows {
			for _, p := range row {
				used = append(used, usedPiece{s.Index, s.Bucket, i, p.Piece,
					documentInfo(p.Piece, from[messageKey{p.Source, p.Sequence}])})
			}
		}
		return write(w, used)
	}
}

// foundPieces converts a writer of pieces to a writer of the found rows of a document.
func foundPieces(write func(io.Writer, []usedPiece) error) func(io.Writer, []api.FoundRow) error {
	return func(w io.Writer, found []api.FoundRow) error {
		var used []usedPiece
		for _, f := range found {
			for _, p := range f.Pieces {
				used = append(used, usedPiece{f.Step, f.Bucket, f.Row, p, documentInfo(p, document.Info{})})
			}
		}
		return write(w, used)
	}
}

// baseFields are the columns of every ledger, with one row per piece. Unknown values of a document are empty.
var baseFields = []arrow.Field{
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

// optionalColumns are columns that a ledger has after fields if a piece has a value for them. In order: the source in a
// run with several sources; the weight, null for 1; the document's values as JSON; for a message with several
// documents, the document's index and its first token in the piece, null if the message is one document or that is
// unknown; the number of tokens with a loss.
var optionalColumns = []column{
	textColumn("source", func(p usedPiece) string { return p.piece.Source }),
	{arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32, Nullable: true}, func(p usedPiece) bool {
		return p.from.Weight != nil
	},
		func(b array.Builder, p usedPiece) {
			if p.from.Weight == nil {
				b.AppendNull()
				return
			}
			b.(*array.Float32Builder).Append(*p.from.Weight)
		}},
	textColumn("meta", func(p usedPiece) string { return metaJSON(p.from) }),
	numberColumn("index", func(p usedPiece) *int32 {
		return innerNumber(p, func(in *api.InnerDocument) *int32 { return &in.Index })
	}),
	numberColumn("start_within", func(p usedPiece) *int32 {
		return innerNumber(p, func(in *api.InnerDocument) *int32 { return &in.Within })
	}),
	numberColumn("loss_tokens", func(p usedPiece) *int32 { return p.piece.LossTokens }),
}

// innerNumber returns a number of a document in a message with several documents, nil if the message is one document.
func innerNumber(p usedPiece, of func(*api.InnerDocument) *int32) *int32 {
	if p.piece.InnerDocument == nil {
		return nil
	}
	return of(p.piece.InnerDocument)
}

// column is a column that a ledger has if any piece has a value for it.
type column struct {
	field       arrow.Field
	hasValue    func(usedPiece) bool
	appendValue func(array.Builder, usedPiece)
}

func textColumn(name string, of func(usedPiece) string) column {
	return column{arrow.Field{Name: name, Type: arrow.BinaryTypes.String}, func(p usedPiece) bool { return of(p) != "" },
		func(b array.Builder, p usedPiece) { b.(*array.StringBuilder).Append(of(p)) }}
}

func numberColumn(name string, of func(usedPiece) *int32) column {
	return column{arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int32, Nullable: true}, func(p usedPiece) bool {
		return of(p) != nil
	},
		func(b array.Builder, p usedPiece) {
			n := of(p)
			if n == nil {
				b.AppendNull()
				return
			}
			b.(*array.Int32Builder).Append(*n)
		}}
}

func newRecord(pieces []usedPiece) arrow.Record {
	all, behind := slices.Clone(baseFields), optionalColumns[:0:0]
	for _, m := range optionalColumns {
		if slices.ContainsFunc(pieces, m.hasValue) {
			all, behind = append(all, m.field), append(behind, m)
		}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(all, nil))
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
		for i, m := range behind {
			m.appendValue(b.Field(len(baseFields)+i), p)
		}
	}
	return b.NewRecord()
}

// metaJSON returns the values of a document as JSON, empty for none.
func metaJSON(d document.Info) string {
	if len(d.Meta) == 0 {
		return ""
	}
	b, err := json.Marshal(d.Meta)
	if err != nil {
		panic(err) // texts and numbers can always be encoded
	}
	return string(b)
}

func writeArrow(w io.Writer, pieces []usedPiece) error {
	rec := newRecord(pieces)
	defer rec.Release()
	out := ipc.NewWriter(w, ipc.WithSchema(rec.Schema()))
	if err := out.Write(rec); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return out.Close()
}
