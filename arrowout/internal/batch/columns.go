package batch

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/arrowout/internal/refusal"
	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
)

// Column is a column that a ticket may ask for.
type Column struct {
	Ask  string // spelling in a ticket
	name string // name in the schema
	Typ  arrow.DataType
	bits int // that a token takes in the values buffer
	// bytes that a piece takes there, a row, and a batch in its messages
	perPiece, perRow, perBatch int
	perMasked                  int // a token more, in steps with tokens that have no loss
	build                      func(layout) (arrow.ArrayData, error)
}

const wideLimit = math.MaxUint16 + 1 // ids, or segments of a row, that uint16 holds

var (
	// DefaultColumns are those of a ticket that names none.
	DefaultColumns = []string{"input_ids", "segment_ids"}

	pieceType = arrow.StructOf(
		arrow.Field{Name: "sequence", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		arrow.Field{Name: "start", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32, Nullable: true})

	// of a run whose messages may hold several documents
	pieceOfType = arrow.StructOf(append([]arrow.Field{{Name: "index", Type: arrow.PrimitiveTypes.Int32, Nullable: true}},
		pieceType.Fields()...)...)
	documentsOf = Column{Ask: "documents", name: "documents", Typ: arrow.ListOf(pieceOfType), perPiece: 20,
		build: documentsWithin}

	// AllColumns are the columns that every run has.
	AllColumns = []Column{
		{Ask: "input_ids", name: "input_ids", Typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32, build: inputIDs},
		{Ask: "input_ids:uint16", name: "input_ids", Typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), bits: 16,
			build: narrowIDs},
		{Ask: "segment_ids", name: "segment_ids", Typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), bits: 16,
			build: segmentIDs},
		{Ask: "cu_seqlens", name: "cu_seqlens", Typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perPiece: 4, perRow: 4,
			build: cuSeqlens},
		{Ask: "position_ids", name: "position_ids", Typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32,
			build: positionIDs},
		{Ask: "labels", name: "labels", Typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32, build: labels},
		{Ask: "loss_runs", name: "loss_runs", Typ: arrow.ListOf(arrow.PrimitiveTypes.Int32), perRow: 8, perMasked: 4,
			build: lossRuns},
		{Ask: "loss_weights", name: "loss_weights", Typ: arrow.ListOf(arrow.PrimitiveTypes.Float32), perPiece: 4,
			build: lossWeights},
		{Ask: "documents", name: "documents", Typ: arrow.ListOf(pieceType), perPiece: 16, build: documents},
		{Ask: "sources", name: "sources", Typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), perPiece: 2, build: sourceNumbers},
	}
)

// Parse looks up the columns that a ticket names, in its order.
func Parse(asked []string, cfg runconfig.Config) ([]Column, error) {
	var got []Column
	known := columnsIn(cfg)
	for _, ask := range asked {
		i := slices.IndexFunc(known, func(c Column) bool { return c.Ask == ask })
		if i < 0 {
			return nil, refusal.BadTicket("unknown column %s, want some of %s", refusal.Excerpt([]byte(ask)), columnNames(known))
		}
		c := known[i]
		if c.Ask == documentsOf.Ask && cfg.Documents.Several() {
			c = documentsOf
		}
		if slices.ContainsFunc(got, func(o Column) bool { return o.name == c.name }) {
			return nil, refusal.BadTicket("column %s is asked for twice", c.name)
		}
		if c.narrow() && !narrows(cfg) {
			return nil, refusal.BadTicket(
				"input_ids:uint16 cannot hold the ids of tokenizer %s (%d ids, padding %d): ask for input_ids",
				cfg.Tokenizer.Name, cfg.Tokenizer.VocabSize, cfg.Tokenizer.Pad)
		}
		got = append(got, c)
	}
	return got, nil
}

func (c Column) narrow() bool { return c.Ask == "input_ids:uint16" }

// columnsIn are all columns of a run's schema, and those that documents of the run bring along.
func columnsIn(cfg runconfig.Config) []Column {
	return append(slices.Clip(AllColumns), columnsBeside(cfg.Documents)...)
}

// narrows reports whether uint16 holds all ids of a run.
func narrows(cfg runconfig.Config) bool {
	return cfg.Tokenizer.VocabSize <= wideLimit && cfg.Tokenizer.Pad >= 0 && cfg.Tokenizer.Pad < wideLimit
}

// Names returns the columns that a ticket for a run may ask for.
func Names(cfg runconfig.Config) (names []string) {
	for _, c := range columnsIn(cfg) {
		if !c.narrow() || narrows(cfg) {
			names = append(names, c.Ask)
		}
	}
	return names
}

func columnNames(columns []Column) string {
	var all []string
	for _, c := range columns {
		all = append(all, c.Ask)
	}
	return strings.Join(all, ", ")
}

// SchemaOf is the schema of every batch with these columns, whatever the bucket: one schema serves a whole run.
func SchemaOf(columns []Column) *arrow.Schema {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.Typ, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// rowBytes bounds what row i of a step takes on the wire, list offsets included.
func rowBytes(columns []Column, s *plan.Step, i int) int {
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
