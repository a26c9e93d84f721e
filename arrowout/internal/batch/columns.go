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
	TicketName string // spelling in a ticket
	name       string // name in the schema
	Type       arrow.DataType
	bits       int // per token in the values buffer
	// Bytes in the values buffer per piece and per row, and in the messages per batch.
	perPiece, perRow, perBatch int
	perMasked                  int // per token, in addition, in steps with tokens that have no loss
	build                      func(layout) (arrow.ArrayData, error)
}

const uint16Limit = math.MaxUint16 + 1 // number of ids, or segments of a row, that uint16 can represent

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
	innerDocumentsColumn = Column{TicketName: "documents", name: "documents", Type: arrow.ListOf(pieceOfType),
		perPiece: 20,
		build:    innerDocuments}

	// AllColumns are the columns that every run has.
	AllColumns = []Column{
		{TicketName: "input_ids", name: "input_ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32,
			build: inputIDs},
		{TicketName: "input_ids:uint16", name: "input_ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Uint16), bits: 16,
			build: narrowIDs},
		{TicketName: "segment_ids", name: "segment_ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Uint16), bits: 16,
			build: segmentIDs},
		{TicketName: "cu_seqlens", name: "cu_seqlens", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), perPiece: 4, perRow: 4,
			build: cuSeqlens},
		{TicketName: "position_ids", name: "position_ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32,
			build: positionIDs},
		{TicketName: "labels", name: "labels", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), bits: 32, build: labels},
		{TicketName: "loss_runs", name: "loss_runs", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), perRow: 8, perMasked: 4,
			build: lossRuns},
		{TicketName: "loss_weights", name: "loss_weights", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), perPiece: 4,
			build: lossWeights},
		{TicketName: "documents", name: "documents", Type: arrow.ListOf(pieceType), perPiece: 16, build: documents},
		{TicketName: "sources", name: "sources", Type: arrow.ListOf(arrow.PrimitiveTypes.Uint16), perPiece: 2,
			build: sourceNumbers},
	}
)

// ParseColumns returns the columns that a ticket names, in the order of the ticket.
func ParseColumns(asked []string, cfg runconfig.Config) ([]Column, error) {
	var got []Column
	known := runColumns(cfg)
	for _, ask := range asked {
		i := slices.IndexFunc(known, func(c Column) bool { return c.TicketName == ask })
		if i < 0 {
			return nil, refusal.InvalidTicket("unknown column %s: want columns from %s", refusal.Excerpt([]byte(ask)),
				joinColumnNames(known))
		}
		c := known[i]
		if c.TicketName == innerDocumentsColumn.TicketName && cfg.Documents.CanHoldMultiple() {
			c = innerDocumentsColumn
		}
		if slices.ContainsFunc(got, func(o Column) bool { return o.name == c.name }) {
			return nil, refusal.InvalidTicket("column %s is requested twice", c.name)
		}
		if c.isNarrow() && !fitsUint16(cfg) {
			return nil, refusal.InvalidTicket(
				"input_ids:uint16 cannot hold the ids of tokenizer %s (%d ids, padding %d): request input_ids",
				cfg.Tokenizer.Name, cfg.Tokenizer.VocabSize, cfg.Tokenizer.Pad)
		}
		got = append(got, c)
	}
	return got, nil
}

func (c Column) isNarrow() bool { return c.TicketName == "input_ids:uint16" }

// runColumns returns all columns of a run's schema, those of extra document data included.
func runColumns(cfg runconfig.Config) []Column {
	return append(slices.Clip(AllColumns), extraColumns(cfg.Documents)...)
}

// fitsUint16 reports whether uint16 holds all ids of a run.
func fitsUint16(cfg runconfig.Config) bool {
	return cfg.Tokenizer.VocabSize <= uint16Limit && cfg.Tokenizer.Pad >= 0 && cfg.Tokenizer.Pad < uint16Limit
}

// ColumnNames returns the columns that a ticket for a run may ask for.
func ColumnNames(cfg runconfig.Config) (names []string) {
	for _, c := range runColumns(cfg) {
		if !c.isNarrow() || fitsUint16(cfg) {
			names = append(names, c.TicketName)
		}
	}
	return names
}

func joinColumnNames(columns []Column) string {
	var all []string
	for _, c := range columns {
		all = append(all, c.TicketName)
	}
	return strings.Join(all, ", ")
}

// SchemaOf returns the schema of every batch with these columns. It does not depend on the bucket, so a run has one
// schema.
func SchemaOf(columns []Column) *arrow.Schema {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.Type, Nullable: true}
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

func tooManySegmentsError(pieces int) error {
	return &fault.Error{Reason: fault.TooManySegments,
		Message: fmt.Sprintf("a row has %d pieces, segment_ids (uint16) supports %d", pieces, uint16Limit-1),
		Advice:  "request cu_seqlens instead of segment_ids"}
}
