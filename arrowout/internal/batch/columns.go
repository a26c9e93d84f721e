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
	bits int // per token in the values buffer
	// Bytes in the values buffer per piece and per row, and in the messages per batch.
	perPiece, perRow, perBatch int
	perMasked                  int // per token, in addition, in steps with tokens that have no loss
	build                      func(layout) (arrow.ArrayData, error)
}

const wideLimit = math.MaxUint16 + 1 // number of ids, or segments of a row, that uint16 can represent

var (
	// DefaultColumns are the columns of a ticket that names none.
	DefaultColumns = []string{"input_ids", "segment_ids"}

	pieceType = arrow.StructOf(
		arrow.Field{Name: "sequence", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		arrow.Field{Name: "start", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32, Nullable: true})

	// pieceOfType is pieceType for a run whose messages may hold several documents.
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

// Parse returns the columns that a ticket names, in the order of the ticket.
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

// columnsIn returns all columns of a run's schema, those of extra document data included.
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

// SchemaOf returns the schema of every batch with these columns. It does not depend on the bucket, so a run has one
// schema.
func SchemaOf(columns []Column) *arrow.Schema {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.Typ, Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

// rowBytes bounds the size of row i of a step on the wire, list offsets included.
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
