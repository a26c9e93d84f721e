package arrowout

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/loader"
	"loaderd/loader/plan"
)

// column is a column that a ticket may ask for.
type column struct {
	ask  string // spelling in a ticket
	name string // name in the schema
	typ  arrow.DataType
	// bytes a row of length L with p pieces takes in the values buffer
	perToken, perPiece, perRow int
	build                      func(layout) (arrow.ArrayData, error)
}

const wideLimit = math.MaxUint16 + 1 // ids, or segments of a row, that uint16 holds

var (
	defaultColumns = []string{"input_ids", "segment_ids"}

	pieceType = arrow.StructOf(
		arrow.Field{Name: "sequence", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		arrow.Field{Name: "start", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32, Nullable: true})

	allColumns = []column{
		{ask: "input_ids", name: "input_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perToken: 4, build: inputIDs},
		{ask: "input_ids:uint16", name: "input_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), perToken: 2, build: narrowIDs},
		{ask: "segment_ids", name: "segment_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), perToken: 2, build: segmentIDs},
		{ask: "cu_seqlens", name: "cu_seqlens", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perPiece: 4, perRow: 4, build: cuSeqlens},
		{ask: "position_ids", name: "position_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perToken: 4, build: positionIDs},
		{ask: "labels", name: "labels", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perToken: 4, build: labels},
		{ask: "documents", name: "documents", typ: arrow.ListOf(pieceType), perPiece: 16, build: documents},
		{ask: "sources", name: "sources", typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), perPiece: 2, build: sourceNumbers},
	}
)

// parseColumns looks up the columns that a ticket names, in its order.
func parseColumns(asked []string, cfg plan.Config) ([]column, error) {
	var got []column
	for _, ask := range asked {
		i := slices.IndexFunc(allColumns, func(c column) bool { return c.ask == ask })
		if i < 0 {
			return nil, badTicket("unknown column %s, want some of %s", excerpt([]byte(ask)), columnNames())
		}
		c := allColumns[i]
		if slices.ContainsFunc(got, func(o column) bool { return o.name == c.name }) {
			return nil, badTicket("column %s is asked for twice", c.name)
		}
		if c.ask == "input_ids:uint16" && (cfg.Tokenizer.VocabSize > wideLimit || cfg.Tokenizer.Pad < 0 || cfg.Tokenizer.Pad >= wideLimit) {
			return nil, badTicket("input_ids:uint16 cannot hold the ids of tokenizer %s (%d ids, padding %d): ask for input_ids",
				cfg.Tokenizer.Name, cfg.Tokenizer.VocabSize, cfg.Tokenizer.Pad)
		}
		if c.ask == "sources" && !cfg.Mixed() {
			return nil, badTicket("the run reads one document stream: it has no column sources")
		}
		got = append(got, c)
	}
	return got, nil
}

func columnNames() string {
	var all []string
	for _, c := range allColumns {
		all = append(all, c.ask)
	}
	return strings.Join(all, ", ")
}

// schemaOf is the schema of every batch with these columns, whatever the bucket: one schema serves a whole run.
func schemaOf(columns []column) *arrow.Schema {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.typ, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// rowBytes is what one row of length l with this many pieces takes on the wire, list offsets included.
func rowBytes(columns []column, l, pieces int) int {
	n := 0
	for _, c := range columns {
		n += c.perToken*l + c.perPiece*pieces + c.perRow + 4
	}
	return n
}

func tooManySegments(pieces int) error {
	return &loader.Error{Reason: TooManySegments,
		Message: fmt.Sprintf("a row has %d pieces, segment_ids (uint16) can number %d", pieces, wideLimit-1),
		Do:      "ask for cu_seqlens instead of segment_ids"}
}
