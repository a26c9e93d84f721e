package docstream

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/stream"
)

// FuzzBatch decodes any bytes as a message of several documents. The result is documents with tokens of the
// vocabulary and losses that add up, or a reason.
func FuzzBatch(f *testing.F) {
	d := testDecoder
	documents := runconfig.Documents{MultiplePerMessage: true, Meta: metaConfig.Meta,
		Columns: map[string]runconfig.TokenColumn{"half": {Type: runconfig.ColumnFloat16, Fill: 1},
			"flag":  {Type: runconfig.ColumnBool},
			"other": {Type: runconfig.ColumnNone}}}
	d.batches, d.columns, d.meta, d.ignored = true, tokenColumns(documents), metaColumns(documents),
		ignoredColumns(documents)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: columnIDs, Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
		{Name: columnID, Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: columnLoss, Type: arrow.ListOf(arrow.FixedWidthTypes.Boolean), Nullable: true},
		{Name: columnWeight, Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "half", Type: arrow.ListOf(arrow.FixedWidthTypes.Float16), Nullable: true},
		{Name: "flag", Type: arrow.ListOf(arrow.FixedWidthTypes.Boolean), Nullable: true},
		{Name: "lang", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
			Nullable: true},
		{Name: "year", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "score", Type: arrow.PrimitiveTypes.Float32,
			Nullable: true},
		{Name: "other", Type: arrow.PrimitiveTypes.Int8, Nullable: true}}, nil)
	for _, rows := range []string{`[]`,
		`[{"ids":[1,2],"half":[0.5,null],"flag":[true,false],"lang":"de","year":3,"score":0.5,"other":1},{"ids":[3],"flag":[null]}]`, `[{"ids":[1,2],"id":"a","loss":[true,false],"weight":0.5},{"ids":[3]}]`, `[{"ids":[],"id":""},{"ids":[9,9,9],"loss":[false,false,false]}]`} {
		record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
		if err != nil {
			f.Fatal(err)
		}
		for _, options := range [][]ipc.Option{{ipc.WithSchema(schema)}, {ipc.WithSchema(schema), ipc.WithZstd()}} {
			var b bytes.Buffer
			w := ipc.NewWriter(&b, options...)
			if err := w.Write(record); err != nil {
				f.Fatal(err)
			}
			w.Close()
			f.Add(b.Bytes())
		}
	}
	l := &Log{decoder: d, transform: transform{bos: -1, end: 7, limit: maxTokens, columns: d.columns}}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, failed := d.decode(header("Content-Type", stream.TypeArrow, "Loaderd-Tokenizer", testPrint), data)
		if failed != nil {
			if failed.Reason == "" || failed.Sentence == "" || strings.ContainsAny(failed.Sentence, "\r\n\x00") ||
				len(failed.Sentence) > 800 || got.documents != nil {
				t.Fatalf("reason %q, sentence %q, %+v", failed.Reason, failed.Sentence, got)
			}
			return
		}
		doc, failed := l.multiDocument(document.Document{Sequence: 1}, got.documents, hintInputs{})
		if failed != nil {
			t.Fatal(failed)
		}
		total, start := 0, int32(0)
		for i, x := range doc.Parts {
			sum := int32(0)
			for _, n := range x.Loss {
				sum += n
			}
			if doc.Docs[i].Start != start || x.Length < 0 || x.Loss != nil && int(sum) != x.Length ||
				(x.Skip == plan.SkipEmpty) != (x.Length == 0) {
				t.Fatalf("document %d is %+v, %+v", i, x, doc.Docs[i])
			}
			start += int32(x.Length)
			total += x.Length
		}
		if total != doc.Len() || len(doc.Parts) != len(got.documents) {
			t.Fatalf("%d tokens of documents, %d in the message", total, doc.Len())
		}
		if b := doc.Extra; b != nil {
			if b.Meta != nil && len(b.Meta) != len(d.meta)*len(doc.Docs) || b.Columns != nil &&
				len(b.Columns) != len(d.columns) {
				t.Fatalf("%d documents with %v", len(doc.Docs), b)
			}
			for i, column := range b.Columns {
				if column != nil && len(column) != total*d.columns[i].width {
					t.Fatalf("%d tokens with %d bytes of column %d", total, len(column), i)
				}
			}
		}
		for _, id := range doc.TokenIDs(0, doc.Len()) {
			if id < 0 || int(id) >= d.vocab {
				t.Fatalf("id %d", id)
			}
		}
	})
}
