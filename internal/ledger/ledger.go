// Package ledger shows what exactly is in a step, and in which rows a document is: as a table, JSON, Arrow or Parquet.
package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"loaderd/arrowout/answers"
	"loaderd/loader"
)

// Step is a whole step: its rows, and the pieces of documents that make each row.
type Step struct {
	answers.Step
	Rows      [][]Piece             `json:"rows"`
	Documents []loader.DocumentInfo `json:"documents,omitempty"` // of the rows, by sequence, where they are known
}

// Piece is a part of a row, with its text where that has been read.
type Piece struct {
	answers.Piece
	Text *Text `json:"text,omitempty"`
}

func (p Piece) String() string { return name(p.Piece) }

// name writes a piece as SEQUENCE:START+LENGTH.
func name(p answers.Piece) string { return fmt.Sprintf("%d:%d+%d", p.Sequence, p.Start, p.Length) }

// Add adds the next page of the step.
func (s *Step) Add(page answers.Page) {
	s.Step = page.Step
	for _, row := range page.Rows {
		pieces := make([]Piece, len(row))
		for k, p := range row {
			pieces[k].Piece = p
		}
		s.Rows = append(s.Rows, pieces)
	}
	for _, d := range page.Documents { // a document may be on several pages
		bySequence := func(d loader.DocumentInfo, sequence uint64) int { return cmp.Compare(d.Sequence, sequence) }
		if at, there := slices.BinarySearchFunc(s.Documents, d.Sequence, bySequence); !there {
			s.Documents = slices.Insert(s.Documents, at, d)
		}
	}
}

// origins are the step's documents by their sequences.
func (s Step) origins() map[uint64]loader.DocumentInfo {
	from := map[uint64]loader.DocumentInfo{}
	for _, d := range s.Documents {
		from[d.Sequence] = d
	}
	return from
}

// Format writes steps, and rows in which a document was found.
type Format struct {
	Step  func(io.Writer, Step) error
	Found func(io.Writer, []answers.Found) error
	Texts bool // it can show the text of pieces
}

// Formats are the formats by their names.
var Formats = map[string]Format{
	"table":   {writeTable, writeFoundTable, true},
	"json":    {writeJSON[Step], writeJSON[[]answers.Found], true},
	"arrow":   {stepPieces(writeArrow), foundPieces(writeArrow), false},
	"parquet": {stepPieces(writeParquet), foundPieces(writeParquet), false},
}

func writeJSON[T any](w io.Writer, v T) error { return json.NewEncoder(w).Encode(v) }
