package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"loaderd/internal/api"
	"loaderd/internal/goldentest"
	"loaderd/loader/document"
)

// someStep returns a step with a document in two rows, a row without pieces, partially known documents, and all kinds
// of texts.
func someStep() Step {
	piece := func(sequence uint64, start, length int32, text string) Piece {
		return Piece{api.Piece{Sequence: sequence, Start: start, Length: length}, &Text{[]byte(text)}}
	}
	return Step{Step: api.Step{Run: "whole", Index: 7, Bucket: 16, Cursor: 1 << 40}, Rows: [][]Piece{
		{piece(1, 0, 9, "a \"first\" <line>\nand more"), piece(1<<53, 3, 7, "cut \xe4\xb8")},
		{},
		{piece(1, 9, 4, strings.Repeat("x", 200)), {Piece: api.Piece{Sequence: 3, Length: 1}}},
	}, Documents: []document.Info{
		{Sequence: 1, Subject: "docs.web", ID: "corpus/1.txt", Path: "corpus/1.txt", Domain: "law"},
		{Sequence: 3},
		{Sequence: 1 << 53, Subject: "docs.web", ID: "id-9", Path: "b.jsonl"},
	}}
}

// pieceWithin returns a piece of a document in a message with several documents.
func pieceWithin(sequence uint64, start, length, loss int32, in api.InnerDocument) api.Piece {
	return api.Piece{Sequence: sequence, Start: start, Length: length, LossTokens: &loss, InnerDocument: &in}
}

// severalStep returns a step with documents of a message with several documents, one of them in two rows, and a
// message that is one document.
func severalStep() Step {
	loss, weight := int32(7), float32(0.5)
	seventh := api.InnerDocument{Index: 7, Within: 0, ID: "x7", Weight: &weight, Meta: map[string]any{"lang": "de"}}
	rest := seventh
	rest.Within = 23
	return Step{Step: api.Step{Run: "whole", Index: 7, Bucket: 64, Cursor: 3, Masked: 3}, Rows: [][]Piece{
		{{Piece: pieceWithin(2, 128, 23, 20, seventh)}, {Piece: pieceWithin(2, 0, 9, 9, api.InnerDocument{})}},
		{{Piece: pieceWithin(2, 151, 4, 4, rest)}, {Piece: api.Piece{Sequence: 1, Length: 7, LossTokens: &loss}},
			{Piece: api.Piece{Sequence: 3, Length: 1}}},
	}, Documents: []document.Info{{Sequence: 1, Subject: "docs.web", ID: "alone", Weight: &weight},
		{Sequence: 2, Subject: "docs.web", ID: "message"}, {Sequence: 3}}}
}

var foundWithin = []api.FoundRow{{Run: "whole", Step: 7, Bucket: 64, Row: 1, Pieces: []api.Piece{
	pieceWithin(2, 151, 4, 3, api.InnerDocument{Index: 7, Within: 23, ID: "x7", Meta: map[string]any{"lang": "de"}}),
	{Sequence: 3, Length: 1}}}}

// withoutText returns a step as it is without --text.
func withoutText(s Step) Step {
	for _, row := range s.Rows {
		for k := range row {
			row[k].Text = nil
		}
	}
	return s
}

// TestLedger_GoldenOutput compares the ledger's output in every format with golden files.
func TestLedger_GoldenOutput(t *testing.T) {
	found := []api.FoundRow{
		{Run: "whole", Step: 7, Bucket: 16, Row: 0, Pieces: []api.Piece{{Sequence: 1, Length: 9}}},
		{Run: "whole", Step: 12, Bucket: 4096, Row: 31, Pieces: []api.Piece{{Sequence: 1, Start: 9, Length: 4},
			{Sequence: 1, Start: 13, Length: 4000}}},
	}
	bare := withoutText(someStep())
	bare.Documents = nil
	steps := map[string]Step{"step": bare, "documents": withoutText(someStep()), "text": someStep(),
		"empty": {Step: api.Step{Run: "whole", Index: 1, Bucket: 8}}}
	mixed := withoutText(someStep()) // the same sequences in two sources
	for i, row := range mixed.Rows {
		for k := range row {
			row[k].Source = []string{"web", "code"}[(i+k)%2]
		}
	}
	mixed.Documents = nil
	for _, source := range []string{"web", "code"} {
		mixed.AddPage(api.LedgerPage{Step: mixed.Step, Documents: []document.Info{{Source: source, Sequence: 3,
			Subject: "docs." + source, Path: "three"}, {Source: source, Sequence: 1, ID: source}}})
	}
	steps["sources"] = mixed
	says := withoutText(someStep())
	says.Documents[0].Meta = map[string]any{"lang": "de", "year": int64(2024), "score": 0.5}
	steps["meta"] = says
	weighs := withoutText(someStep())
	weights := []float32{0, 0.1}
	weighs.Documents[0].Weight, weighs.Documents[2].Weight = &weights[0], &weights[1]
	weighs.Documents[1].Meta, weighs.Documents[2].Meta = map[string]any{"lang": "de"}, map[string]any{"lang": "en"}
	steps["weights"] = weighs
	steps["several"] = severalStep()
	for format, write := range Formats {
		for name, s := range steps {
			if name == "text" && !write.HasTexts {
				continue
			}
			t.Run(name+" "+format, func(t *testing.T) {
				goldentest.Compare(t, name+"."+format, listed(format, func(w io.Writer) error { return write.Step(w, s) }))
			})
		}
		t.Run("found "+format, func(t *testing.T) {
			goldentest.Compare(t, "found."+format, listed(format, func(w io.Writer) error { return write.Found(w, found) }))
		})
		t.Run("found several "+format, func(t *testing.T) {
			goldentest.Compare(t, "found-several."+format, listed(format, func(w io.Writer) error {
				return write.Found(w, foundWithin)
			}))
		})
		t.Run("none "+format, func(t *testing.T) {
			goldentest.Compare(t, "none."+format, listed(format, func(w io.Writer) error {
				return write.Found(w, []api.FoundRow{})
			}))
		})
	}
}

// listed converts output in a binary format to its schema and one line per row.
func listed(format string, write func(io.Writer) error) func(io.Writer) error {
	decode := map[string]func([]byte) (array.RecordReader, error){"arrow": arrowRecords, "parquet": parquetRecords}[format]
	if decode == nil {
		return write
	}
	return func(w io.Writer) error {
		var data bytes.Buffer
		if err := write(&data); err != nil {
			return err
		}
		records, err := decode(data.Bytes())
		if err != nil {
			return err
		}
		defer records.Release()
		for _, f := range records.Schema().Fields() {
			fmt.Fprintf(w, "%s %s nullable=%t\n", f.Name, f.Type, f.Nullable)
		}
		for records.Next() {
			rec := records.Record()
			for i := range int(rec.NumRows()) {
				for _, column := range rec.Columns() {
					fmt.Fprintf(w, "%q ", column.ValueStr(i))
				}
				fmt.Fprintln(w)
			}
		}
		if err := records.Err(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
}

func arrowRecords(data []byte) (array.RecordReader, error) {
	return ipc.NewReader(bytes.NewReader(data), ipc.WithAllocator(memory.DefaultAllocator))
}

func parquetRecords(data []byte) (array.RecordReader, error) {
	f, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	p, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	table, err := p.ReadTable(context.Background())
	if err != nil {
		return nil, err
	}
	defer table.Release()
	return array.NewTableReader(table, -1), nil
}
