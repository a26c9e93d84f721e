// Package documents reads whole documents from JSON lines, for packing methods and figures that depend on the
// content.
package documents

import (
	"context"
	"fmt"
	"slices"

	"loaderd/internal/relatedness"
	"loaderd/internal/simulation"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// Set is a list of documents.
type Set struct {
	documents []relatedness.Document
	vectors   [][]float32 // nil for documents without an embedding
	dimension int         // of the first embedding, 0 without any
	end       int32       // token that follows ids without it, as in the daemon; -1 for none
}

// Lengths returns the number of tokens of each document.
func (s *Set) Lengths() []int32 {
	out := make([]int32, len(s.documents))
	for i, d := range s.documents {
		out[i] = int32(len(d.IDs))
	}
	return out
}

// Hints returns the retrieval hints of the documents for a packing method; nil if the method uses none.
func (s *Set) Hints(c *similarity.Config) ([]*similarity.Hint, error) {
	if c == nil {
		return nil, nil
	}
	maker := similarity.NewHintMaker(*c)
	out := make([]*similarity.Hint, len(s.documents))
	for i, d := range s.documents {
		var vector []int8
		if c.Retriever == "dense" && s.vectors[i] != nil {
			var err error
			if vector, err = similarity.NormalizeVector(s.vectors[i], c.Dimension); err != nil {
				return nil, fmt.Errorf("document %d: %w", i, err)
			}
		}
		out[i] = maker.Hint("", d.IDs, d.Path, vector)
	}
	return out, nil
}

// Lacks returns the name of the field that a retriever compares if no document has it, else an empty string. The
// retriever then packs by length only.
func Lacks(c *similarity.Config, hints []*similarity.Hint) string {
	if len(hints) == 0 || slices.ContainsFunc(hints, c.HasData) {
		return ""
	}
	return map[string]string{"repo": "path", "dense": "embedding"}[c.Retriever]
}

// Pack packs the documents and measures how related the documents in a row are. hints are those of Hints for this
// configuration.
func (s *Set) Pack(ctx context.Context, c packonline.Config, hints []*similarity.Hint,
	below int) (*simulation.Result, *relatedness.Metrics, error) {
	var rows [][]relatedness.Piece
	result, err := simulation.RunDocuments(ctx, c, s.Lengths(), hints, below,
		func(_ int, pieces []packonline.Piece) error {
			row := make([]relatedness.Piece, len(pieces))
			for i, x := range pieces {
				row[i] = relatedness.Piece{Document: int(x.Doc), Start: x.Start, Length: x.Length}
			}
			rows = append(rows, row)
			return nil
		})
	if err != nil {
		return nil, nil, err
	}
	f := relatedness.Measure(s.documents, rows)
	return result, &f, nil
}

// Dimension returns the dimension of the first embedding, 0 without any.
func (s *Set) Dimension() int { return s.dimension }
