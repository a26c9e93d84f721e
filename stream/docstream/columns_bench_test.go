package docstream

import (
	"bytes"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"loaderd/loader/document"
	"loaderd/loader/runconfig"
	"loaderd/stream"
)

// BenchmarkColumns measures decoding a message of 64 documents of 300 tokens, without columns and with two columns
// and a text.
func BenchmarkColumns(b *testing.B) {
	const documents, tokens = 64, 300
	c := runconfig.Documents{MultiplePerMessage: true,
		Columns: map[string]runconfig.TokenColumn{"half": {Type: runconfig.ColumnFloat16},
			"flag": {Type: runconfig.ColumnBool}},
		Meta: map[string]string{"lang": runconfig.MetaString}}
	fields := []arrow.Field{{Name: columnIDs, Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)},
		{Name: "half", Type: arrow.ListOf(arrow.FixedWidthTypes.Float16)},
		{Name: "flag", Type: arrow.ListOf(arrow.FixedWidthTypes.Boolean)}, {Name: "lang", Type: arrow.BinaryTypes.String}}
	for name, n := range map[string]int{"without": 1, "with": len(fields)} {
		schema := arrow.NewSchema(fields[:n], nil)
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for range documents {
			for i := range n {
				if list, ok := builder.Field(i).(*array.ListBuilder); ok {
					list.Append(true)
				}
			}
			for k := range tokens {
				builder.Field(0).(*array.ListBuilder).ValueBuilder().(*array.Int32Builder).Append(int32(k))
				if n > 1 {
					builder.Field(1).(*array.ListBuilder).ValueBuilder().(*array.Float16Builder).Append(float16.New(float32(k)))
					builder.Field(2).(*array.ListBuilder).ValueBuilder().(*array.BooleanBuilder).Append(k%3 == 0)
				}
			}
			if n > 1 {
				builder.Field(3).(*array.StringBuilder).Append("de")
			}
		}
		var data bytes.Buffer
		w := ipc.NewWriter(&data, ipc.WithSchema(schema))
		if err := w.Write(builder.NewRecord()); err != nil {
			b.Fatal(err)
		}
		w.Close()
		l := &Log{decoder: decoder{fingerprint: testPrint, vocab: 1000, limit: maxTokens, batches: true,
			columns: tokenColumns(c), meta: metaColumns(c)},
			transform: transform{bos: -1, end: 7, limit: maxTokens, columns: tokenColumns(c)}}
		h := header("Content-Type", stream.TypeArrow, "Loaderd-Tokenizer", testPrint)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, failed := l.decoder.decode(h, data.Bytes())
				if failed != nil {
					b.Fatal(failed)
				}
				if _, failed := l.multiDocument(document.Document{Sequence: 1}, d.documents, hintInputs{}); failed != nil {
					b.Fatal(failed)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*documents*tokens), "ns/token")
		})
	}
}
