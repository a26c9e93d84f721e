package arrowout

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/arrowout/internal/refusal"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
)

// column is a column that a ticket may ask for.
type column struct {
	ask  string // spelling in a ticket
	name string // name in the schema
	typ  arrow.DataType
	bits int // that a token takes in the values buffer
	// bytes that a piece takes there, a row, and a batch in its messages
	perPiece, perRow, perBatch int
	perMasked                  int // a token more, in steps with tokens that have no loss
	build                      func(layout) (arrow.ArrayData, error)
}

const wideLimit = math.MaxUint16 + 1 // ids, or segments of a row, that uint16 holds

var (
	defaultColumns = []string{"input_ids", "segment_ids"}

	pieceType = arrow.StructOf(
		arrow.Field{Name: "sequence", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		arrow.Field{Name: "start", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32, Nullable: true})

	// of a run whose messages may hold several documents
	pieceOfType = arrow.StructOf(append([]arrow.Field{{Name: "index", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, pieceType.Fields()...)...)
	documentsOf = column{ask: "documents", name: "documents", typ: arrow.ListOf(pieceOfType), perPiece: 20, build: documentsWithin}

	allColumns = []column{
		{ask: "input_ids", name: "input_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32, build: inputIDs},
		{ask: "input_ids:uint16", name: "input_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), bits: 16, build: narrowIDs},
		{ask: "segment_ids", name: "segment_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), bits: 16, build: segmentIDs},
		{ask: "cu_seqlens", name: "cu_seqlens", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perPiece: 4, perRow: 4, build: cuSeqlens},
		{ask: "position_ids", name: "position_ids", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32, build: positionIDs},
		{ask: "labels", name: "labels", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32, build: labels},
		{ask: "loss_runs", name: "loss_runs", typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perRow: 8, perMasked: 4, build: lossRuns},
		{ask: "loss_weights", name: "loss_weights", typ: arrow.ListOf(arrow.PrimitiveTypes.Float32), perPiece: 4, build: lossWeights},
		{ask: "documents", name: "documents", typ: arrow.ListOf(pieceType), perPiece: 16, build: documents},
		{ask: "sources", name: "sources", typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), perPiece: 2, build: sourceNumbers},
	}
)

// parseColumns looks up the columns that a ticket names, in its order.
func parseColumns(asked []string, cfg plan.Config) ([]column, error) {
	var got []column
	known := columnsIn(cfg)
	for _, ask := range asked {
		i := slices.IndexFunc(known, func(c column) bool { return c.ask == ask })
		if i < 0 {
			return nil, refusal.BadTicket("unknown column %s, want some of %s", refusal.Excerpt([]byte(ask)), columnNames(known))
		}
		c := known[i]
		if c.ask == documentsOf.ask && cfg.Documents.Several() {
			c = documentsOf
		}
		if slices.ContainsFunc(got, func(o column) bool { return o.name == c.name }) {
			return nil, refusal.BadTicket("column %s is asked for twice", c.name)
		}
		if c.narrow() && !narrows(cfg) {
			return nil, refusal.BadTicket("input_ids:uint16 cannot hold the ids of tokenizer %s (%d ids, padding %d): ask for input_ids",
				cfg.Tokenizer.Name, cfg.Tokenizer.VocabSize, cfg.Tokenizer.Pad)
		}
		got = append(got, c)
	}
	return got, nil
}

func (c column) narrow() bool { return c.ask == "input_ids:uint16" }

// columnsIn are all columns of a run's schema, and those that documents of the run bring along.
func columnsIn(cfg plan.Config) []column {
	return append(slices.Clip(allColumns), columnsBeside(cfg.Documents)...)
}

// narrows reports whether uint16 holds all ids of a run.
func narrows(cfg plan.Config) bool {
	return cfg.Tokenizer.VocabSize <= wideLimit && cfg.Tokenizer.Pad >= 0 && cfg.Tokenizer.Pad < wideLimit
}

// columnsOf are the columns that a ticket for a run may ask for.
func columnsOf(cfg plan.Config) (names []string) {
	for _, c := range columnsIn(cfg) {
		if !c.narrow() || narrows(cfg) {
			names = append(names, c.ask)
		}
	}
	return names
}

func columnNames(columns []column) string {
	var all []string
	for _, c := range columns {
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

// rowBytes bounds what row i of a step takes on the wire, list offsets included.
func rowBytes(columns []column, s *plan.Step, i int) int {
	n, l := 0, int(s.Bucket)
	for _, c := range columns {
		n += (c.bits*l+7)/8 + c.perPiece*len(s.Rows[i]) + c.perRow + 4
		if s.Masked > 0 {
			n += c.perMasked * l
		}
	}
	return n
}

func tooManySegments(pieces int) error {
	return &fault.Error{Reason: fault.TooManySegments,
		Message: fmt.Sprintf("a row has %d pieces, segment_ids (uint16) can number %d", pieces, wideLimit-1),
		Do:      "ask for cu_seqlens instead of segment_ids"}
}
