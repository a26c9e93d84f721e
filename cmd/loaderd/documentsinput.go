package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"loaderd/internal/daemon"
	"loaderd/internal/relatedness"
	"loaderd/internal/simulation"
	"loaderd/packonline"
	"loaderd/packonline/related"
	"loaderd/tokenizer"
)

// documentsInput reads whole documents, for methods and figures to which it matters what they are about.
type documentsInput struct {
	on        bool
	tokenizer string
}

func (in *documentsInput) register(cmd *cobra.Command, why string) {
	f := cmd.Flags()
	f.BoolVar(&in.on, "documents", false, "the input holds JSON lines of documents, not lengths: "+why)
}

// documentSet is a list of documents.
type documentSet struct {
	documents []relatedness.Document
	vectors   [][]float32 // nil for those without an embedding
	dimension int         // of the first embedding, 0 without any
	end       int32       // token behind ids that do not have it, as the daemon puts it there; -1 for none
}

func (s *documentSet) lengths() []int32 {
	out := make([]int32, len(s.documents))
	for i, d := range s.documents {
		out[i] = int32(len(d.IDs))
	}
	return out
}

// hints says what the documents are about, as a method compares them; nil when it does not.
func (s *documentSet) hints(c *related.Config) ([]*related.Hint, error) {
	if c == nil {
		return nil, nil
	}
	maker := related.NewMaker(*c)
	out := make([]*related.Hint, len(s.documents))
	for i, d := range s.documents {
		var vector []int8
		if c.Retriever == "dense" && s.vectors[i] != nil {
			var err error
			if vector, err = related.Vector(s.vectors[i], c.Dimension); err != nil {
				return nil, fmt.Errorf("document %d: %w", i, err)
			}
		}
		out[i] = maker.Hint("", d.IDs, d.Path, vector)
	}
	return out, nil
}

// warn says so where a retriever finds nothing in any document to compare: it then packs by length alone.
func (s *documentSet) warn(w io.Writer, c *related.Config, hints []*related.Hint) {
	lacks, known := map[string]string{"repo": "path", "dense": "embedding"}[c.Retriever]
	if !known || len(hints) == 0 || slices.ContainsFunc(hints, c.Says) {
		return
	}
	fmt.Fprintf(w, "loaderd: warning: no document has %s: splice with retriever %s relates none to another and packs by length alone; give \"%s\" in the lines, or take --retriever bm25\n",
		article(lacks), c.Retriever, lacks)
}

// pack packs the documents and measures how related those are that share a row.
func (s *documentSet) pack(cmd *cobra.Command, c packonline.Config, below int) (*simulation.Result, *relatedness.Figures, error) {
	s.settle(cmd, &c)
	hints, err := s.hints(c.Related())
	if err != nil {
		return nil, nil, err
	}
	if r := c.Related(); r != nil {
		s.warn(cmd.ErrOrStderr(), r, hints)
	}
	var rows [][]relatedness.Piece
	result, err := simulation.RunDocuments(cmd.Context(), c, s.lengths(), hints, below, func(_ int, pieces []packonline.Piece) error {
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

// settle sets the dimension to that of the documents' embeddings unless one is given.
func (s *documentSet) settle(cmd *cobra.Command, c *packonline.Config) {
	if !cmd.Flags().Changed("dimension") && s.dimension > 0 {
		c.Splice.Dimension = s.dimension
	}
}

// documentLine is a line of the input.
type documentLine struct {
	Text      *string          `json:"text"`
	IDs       numbers[int32]   `json:"ids"`
	Path      string           `json:"path"`
	Embedding numbers[float32] `json:"embedding"`
}

// numbers is a list without null, which would be read as 0.
type numbers[T int32 | float32] []T

func (n *numbers[T]) UnmarshalJSON(raw []byte) error {
	if string(raw) != "null" && bytes.Contains(raw, []byte("null")) {
		return errors.New("null in a list of numbers")
	}
	return json.Unmarshal(raw, (*[]T)(n))
}

// maxDocumentLine bounds a line (unit: bytes).
const maxDocumentLine = 256 << 20

// read reads JSON lines from the file that args name, or from stdin, and says what it read.
func (in *documentsInput) read(stdin io.Reader, args []string) (*documentSet, string, error) {
	name, r := "standard input", stdin
	if len(args) > 0 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, "", fmt.Errorf("read documents: %w", err)
		}
		defer f.Close()
		name, r = args[0], f
	}
	model, err := daemon.Model(in.tokenizer, tokenizer.Options{})
	if err != nil {
		return nil, "", err
	}
	set, err := readDocuments(r, name, model, encodeDocuments(model))
	return set, name, err
}

func readDocuments(r io.Reader, name string, model *tokenizer.Model, encode func(text string) []int32) (*documentSet, error) {
	set := &documentSet{end: -1}
	if model != nil {
		if end, ends := model.EndOfText(); ends {
			set.end = end
		}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<20), maxDocumentLine)
	number := 1
	for ; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := set.add(lines.Bytes(), encode); err != nil {
			return nil, fmt.Errorf("read documents: %s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read documents: %s:%d: %w", name, number, err)
	}
	return set, nil
}

// encodeDocuments returns what turns text into tokens with the end-of-document token behind them.
func encodeDocuments(m *tokenizer.Model) func(text string) []int32 {
	e := m.NewEncoder()
	end, ends := m.EndOfText()
	var scratch []int32
	return func(text string) []int32 {
		scratch = e.Encode(scratch[:0], []byte(text))
		ids := make([]int32, len(scratch), len(scratch)+1)
		copy(ids, scratch)
		if ends && len(ids) > 0 {
			ids = append(ids, end)
		}
		return ids
	}
}

// add reads one document. Those without a token are left out.
func (s *documentSet) add(line []byte, encode func(string) []int32) error {
	var d documentLine
	if err := json.Unmarshal(line, &d); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return badLine(err, `"text" or "ids"`)
		}
		return fmt.Errorf("not a document: %w", err)
	}
	switch {
	case (d.Text == nil) == (d.IDs == nil):
		return errors.New(`want "text" or "ids", one of them`)
	case d.Text != nil:
		d.IDs = encode(*d.Text)
	case s.end >= 0 && len(d.IDs) > 0 && d.IDs[len(d.IDs)-1] != s.end:
		d.IDs = append(d.IDs, s.end)
	}
	for i, id := range d.IDs {
		if id < 0 {
			return fmt.Errorf(`"ids": %d at position %d: want a token id, 0 or more`, id, i)
		}
	}
	if d.Embedding != nil {
		if s.dimension == 0 {
			s.dimension = len(d.Embedding)
		}
		if n := len(d.Embedding); n != s.dimension || n < 1 || n > related.MaxDimension {
			return fmt.Errorf(`"embedding": %d numbers: want as many as the first document's %d, 1 to %d`, n, s.dimension, related.MaxDimension)
		}
	}
	if len(d.IDs) == 0 {
		return nil
	}
	if len(d.IDs) > math.MaxInt32 {
		return fmt.Errorf("%d tokens: want at most %d", len(d.IDs), math.MaxInt32)
	}
	s.documents = append(s.documents, relatedness.Document{IDs: d.IDs, Path: d.Path})
	s.vectors = append(s.vectors, d.Embedding)
	return nil
}
