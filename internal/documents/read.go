package documents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"loaderd/internal/jsonlines"
	"loaderd/internal/relatedness"
	"loaderd/packonline/similarity"
	"loaderd/tokenizer"
)

// line is a line of the input.
type line struct {
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

// maxLine bounds a line, in bytes.
const maxLine = 256 << 20

// Read reads JSON lines with "text", which the model tokenizes, or "ids", and optionally "path" and "embedding". The
// model's end-of-document token follows each document. Errors name the input by name, and the line.
func Read(r io.Reader, name string, model *tokenizer.Model) (*Set, error) {
	return read(r, name, model, encodeDocuments(model))
}

func read(r io.Reader, name string, model *tokenizer.Model, encode func(text string) []int32) (*Set, error) {
	set := &Set{end: -1}
	if model != nil {
		if end, ends := model.EndOfText(); ends {
			set.end = end.ID
		}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<20), maxLine)
	number := 1
	for ; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := set.readLine(lines.Bytes(), encode); err != nil {
			return nil, fmt.Errorf("read documents: %s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read documents: %s:%d: %w", name, number, err)
	}
	return set, nil
}

// encodeDocuments returns a function that tokenizes text and appends the end-of-document token.
func encodeDocuments(m *tokenizer.Model) func(text string) []int32 {
	e := m.NewEncoder()
	end, ends := m.EndOfText()
	var scratch []int32
	return func(text string) []int32 {
		scratch = e.Encode(scratch[:0], []byte(text))
		ids := make([]int32, len(scratch), len(scratch)+1)
		copy(ids, scratch)
		if ends && len(ids) > 0 {
			ids = append(ids, end.ID)
		}
		return ids
	}
}

// readLine reads one document. It skips documents without tokens.
func (s *Set) readLine(text []byte, encode func(string) []int32) error {
	var d line
	if err := json.Unmarshal(text, &d); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return jsonlines.Bad(err, `"text" or "ids"`)
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
		if n := len(d.Embedding); n != s.dimension || n < 1 || n > similarity.MaxDimension {
			return fmt.Errorf(`"embedding": %d numbers: want as many as the first document's %d, 1 to %d`, n, s.dimension,
				similarity.MaxDimension)
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
