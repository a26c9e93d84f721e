// Package ledger shows the exact content of a step, and the rows that contain a document: as a table, JSON, Arrow or
// Parquet.
package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"loaderd/internal/api"
	"loaderd/loader/document"
)

// Step is a whole step: its rows, and the pieces of documents that make each row.
type Step struct {
	api.Step
	Rows      [][]Piece       `json:"rows"`
	Documents []document.Info `json:"documents,omitempty"` // of the rows, by source and sequence, if known
}

// Piece is a part of a row, with its text if that has been read.
type Piece struct {
	api.Piece
	Text *Text `json:"text,omitempty"`
}

func (p Piece) String() string { return formatName(p.Piece) }

// formatName returns a piece's name, SEQUENCE:START+LENGTH. In a run with several sources it is
// SOURCE/SEQUENCE:START+LENGTH. For a document in a message with several documents it is SEQUENCE#INDEX:START+LENGTH,
// with START relative to the document. If not all tokens have a loss, their number follows in parentheses.
func formatName(p api.Piece) string {
	start, loss := p.Start, ""
	if p.InnerDocument != nil {
		start = p.Within
	}
	if p.LossTokens != nil && *p.LossTokens != p.Length {
		loss = fmt.Sprintf("(%d)", *p.LossTokens)
	}
	return fmt.Sprintf("%s:%d+%d%s", documentName(p), start, p.Length, loss)
}

// documentName returns the name of a piece's document, with its index in a message with several documents.
func documentName(p api.Piece) string {
	d := messageKey{p.Source, p.Sequence}.String()
	if p.InnerDocument == nil {
		return d
	}
	return fmt.Sprintf("%s#%d", d, p.Index)
}

// documentInfo returns the information about a piece's document. message is that of its message, as far as known.
func documentInfo(p api.Piece, message document.Info) document.Info {
	if p.InnerDocument != nil {
		message.ID, message.Weight, message.Meta = p.ID, p.Weight, p.Meta
	}
	return message
}

// messageKey identifies a message by its sequence, and by its source in a run with several sources.
type messageKey struct {
	source   string
	sequence uint64
}

func (d messageKey) String() string {
	if d.source == "" {
		return strconv.FormatUint(d.sequence, 10)
	}
	return fmt.Sprintf("%s/%d", d.source, d.sequence)
}

func messageKeyOf(d document.Info) messageKey { return messageKey{d.Source, d.Sequence} }

// AddPage adds the next page of the step.
func (s *Step) AddPage(page api.LedgerPage) {
	s.Step = page.Step
	for _, row := range page.Rows {
		pieces := make([]Piece, len(row))
		for k, p := range row {
			pieces[k].Piece = p
		}
		s.Rows = append(s.Rows, pieces)
	}
	for _, d := range page.Documents { // a document may be on several pages
		inOrder := func(d document.Info, o messageKey) int {
			return cmp.Or(cmp.Compare(d.Source, o.source), cmp.Compare(d.Sequence, o.sequence))
		}
		if at, there := slices.BinarySearchFunc(s.Documents, messageKeyOf(d), inOrder); !there {
			s.Documents = slices.Insert(s.Documents, at, d)
		}
	}
}

// origins returns the step's documents by message.
func (s Step) origins() map[messageKey]document.Info {
	from := map[messageKey]document.Info{}
	for _, d := range s.Documents {
		from[messageKeyOf(d)] = d
	}
	return from
}

// Format writes steps, and the rows in which a document was found.
type Format struct {
	Step     func(io.Writer, Step) error
	Found    func(io.Writer, []api.FoundRow) error
	HasTexts bool // whether it can show the text of pieces
}

// Formats are the formats by name.
var Formats = map[string]Format{
	"table":   {writeTable, writeFoundTable, true},
	"json":    {writeJSON[Step], writeJSON[[]api.FoundRow], true},
	"arrow":   {stepPieces(writeArrow), foundPieces(writeArrow), false},
	"parquet": {stepPieces(writeParquet), foundPieces(writeParquet), false},
}

func writeJSON[T any](w io.Writer, v T) error { return json.NewEncoder(w).Encode(v) }
