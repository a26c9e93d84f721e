package docstream_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/filter"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/docstream"
)

// batchOf returns a message with the documents of record batches, each in Arrow's JSON form.
func batchOf(t testing.TB, schema *arrow.Schema, batches ...string) stream.Message {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	for _, rows := range batches {
		record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return stream.Message{ContentType: stream.TypeArrow, Tokenizer: bytesTokenizing.Fingerprint, Data: b.Bytes()}
}

// withColumnTwice returns a message whose record batch has its only column twice.
func withColumnTwice(t testing.TB, schema *arrow.Schema, rows string) stream.Message {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	both := fieldsOf(schema.Field(0), schema.Field(0))
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(both))
	columns := []arrow.Array{record.Column(0), record.Column(0)}
	if err := w.Write(array.NewRecord(both, columns, record.NumRows())); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return stream.Message{ContentType: stream.TypeArrow, Tokenizer: bytesTokenizing.Fingerprint, Data: b.Bytes()}
}

func fieldsOf(fields ...arrow.Field) *arrow.Schema { return arrow.NewSchema(fields, nil) }

var (
	idsField    = arrow.Field{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true}
	idField     = arrow.Field{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true}
	lossField   = arrow.Field{Name: "loss", Type: arrow.ListOf(arrow.FixedWidthTypes.Boolean), Nullable: true}
	weightField = arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32, Nullable: true}
)

func openBatches(t testing.TB, s *stream.Store) *docstream.Log {
	t.Helper()
	tokenizing := bytesTokenizing
	tokenizing.Documents.MultiplePerMessage = true
	l, err := docstream.Open(natstest.Context(t), s, tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The documents of a message are delivered in row order with their ids, losses and weights. They are the same when
// the message is read again.
func TestMultipleDocuments_DeliveredInRowOrder(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	l := openBatches(t, s)
	natstest.Publish(t, s,
		batchOf(t, fieldsOf(idsField, idField, lossField, weightField),
			`[{"ids":[1,2,3],"id":"a","loss":[true,false,false],"weight":0.5},{"ids":[],"id":"b"}]`,
			`[{"ids":[4,5],"loss":[false,false]},{"ids":[6,256],"id":"c","loss":[false,true]},{"ids":[7]}]`),
		batchOf(t, fieldsOf(idsField), `[]`),
		stream.Message{Data: []byte("one")})
	want := document.Document{Sequence: 1}
	half := float32(0.5)
	want.NarrowTokens = []uint16{1, 2, 3, testEnd, 4, 5, testEnd, 6, testEnd, 7, testEnd}
	want.Loss = plan.LossRuns{1, 7, 3}
	want.Docs = []document.Doc{{Start: 0, Weight: &half}, {Start: 4}, {Start: 4}, {Start: 7}, {Start: 9}}
	want.Parts = []plan.Part{{Length: 4, Loss: plan.LossRuns{1, 3}, Attributes: &filter.Attributes{ID: "a", Bytes: 12}},
		{Skip: plan.SkipEmpty}, {Length: 3, Skip: plan.SkipMasked, Loss: plan.LossRuns{0, 3}},
		{Length: 2, Loss: plan.LossRuns{0, 1, 1}, Attributes: &filter.Attributes{ID: "c", Bytes: 8}},
		{Length: 2, Attributes: &filter.Attributes{Bytes: 4}}}
	src := openSource(t, l, 1)
	got := nextDoc(t, src)
	shown, err := l.ViewDocument(natstest.Context(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []document.Document{got, shown.Document} {
		for i := range d.Parts {
			if named := i == 0 || i == 3; (d.Parts[i].ID != 0) != named {
				t.Errorf("document %d has the id %x", i, d.Parts[i].ID)
			}
			d.Parts[i].ID = 0
		}
		d.Stored = 0
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if d := nextDoc(t, src); d.Skip != plan.SkipEmpty || d.Parts != nil {
		t.Errorf("a message without documents: %+v", d)
	}
	if d := nextDoc(t, src); docText(t, d) != "one" || d.Parts != nil || d.Docs != nil {
		t.Errorf("a message with one: %+v", d)
	}
}

// Document ids are accepted in every Arrow type that producers use for texts.
func TestMultipleDocuments_IDsOfEveryTextType(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	l := openBatches(t, s)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	var want []uint64
	for i, typ := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, dictionary} {
		schema := fieldsOf(idsField, arrow.Field{Name: "id", Type: typ, Nullable: true})
		natstest.Publish(t, s, batchOf(t, schema, `[{"ids":[1],"id":"a"},{"ids":[2],"id":null},{"ids":[3],"id":"b"}]`))
		shown, err := l.ViewDocument(natstest.Context(t), uint64(i+1))
		if err != nil || shown.Problem != "" {
			t.Fatalf("ids as %s: %q, %v", typ, shown.Problem, err)
		}
		var got []uint64
		for _, p := range shown.Document.Parts {
			got = append(got, p.ID)
		}
		if i == 0 {
			want = got
		}
		if !slices.Equal(got, want) || got[0] == 0 || got[1] != 0 || got[0] == got[2] {
			t.Errorf("ids as %s are %x, want %x", typ, got, want)
		}
	}
}

// everyTrace samples each document that has the header of a trace.
type everyTrace struct{ docstream.Tracer }

func (everyTrace) Sample(traceparent string, _ time.Time, _ uint64) *document.Trace {
	if traceparent == "" {
		return nil
	}
	return &document.Trace{ID: [16]byte{1}}
}

// A message of several documents has its producer's trace, as a message of one document has.
func TestMultipleDocuments_HaveTraceOfMessage(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	tokenizing := bytesTokenizing
	tokenizing.Documents.MultiplePerMessage, tokenizing.Tracer = true, everyTrace{}
	l, err := docstream.Open(natstest.Context(t), s, tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	traced := batchOf(t, fieldsOf(idsField), `[{"ids":[1]},{"ids":[2]}]`)
	untraced := traced
	traced.Trace = "00-1-2-01"
	natstest.Publish(t, s, traced, untraced)
	for sequence, want := range map[uint64]bool{1: true, 2: false} {
		shown, err := l.ViewDocument(natstest.Context(t), sequence)
		if err != nil || (shown.Document.Trace != nil) != want {
			t.Errorf("message %d has the trace %v, %v", sequence, shown.Document.Trace, err)
		}
	}
}

// A message with one invalid document becomes a dead letter as a whole, and the sentence names the document.
func TestMultipleDocuments_InvalidDocumentRejectsMessage(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	l := openBatches(t, s)
	ids := fieldsOf(idsField)
	good := batchOf(t, ids, `[{"ids":[1]}]`)
	cut, other := good, good
	cut.Data, other.Tokenizer = slices.Clone(good.Data[:len(good.Data)/2]), "sha256:other"
	weighs := good
	weighs.Weight = new(float32)
	twice := withColumnTwice(t, ids, `[{"ids":[1]}]`)
	tests := []struct {
		message stream.Message
		says    string
	}{
		{batchOf(t, ids, `[{"ids":[1]},{"ids":[2,999]}]`), "TOKEN_OUT_OF_RANGE: document 1: id 999 at position 1"},
		{batchOf(t, ids, `[{"ids":[1]}]`, `[{"ids":null}]`), "BAD_BATCH: document 1: ids is null"},
		{batchOf(t, ids, `[{"ids":[null]}]`), "BAD_BATCH: document 0: ids has a null at position 0"},
		{twice, `BAD_COLUMN: 2 columns are named "ids"`},
		{batchOf(t, fieldsOf(idsField, lossField), `[{"ids":[1,2],"loss":[true]}]`),
			"BAD_LOSS: document 0: loss has 1 values, the document 2 tokens"},
		{batchOf(t, fieldsOf(idsField, lossField), `[{"ids":[1],"loss":[null]}]`), "BAD_LOSS: document 0: loss has a null"},
		{batchOf(t, fieldsOf(idsField, weightField), `[{"ids":[1],"weight":-1}]`), "BAD_WEIGHT: document 0: weight is -1"},
		{batchOf(t, fieldsOf(idField), `[{"id":"a"}]`), "BAD_COLUMN: it has no column ids"},
		{batchOf(t, fieldsOf(idsField, arrow.Field{Name: "logprobs", Type: arrow.PrimitiveTypes.Float32}),
			`[{"ids":[1],"logprobs":1}]`), `BAD_COLUMN: column "logprobs" is none of`},
		{batchOf(t, fieldsOf(arrow.Field{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)}), `[{"ids":[1]}]`),
			"BAD_COLUMN: column ids is list<item: int64, nullable>: want"},
		{cut, "BAD_BATCH: "},
		{other, "WRONG_TOKENIZER: "},
		{weighs, "BAD_WEIGHT: header Loaderd-Weight"},
	}
	for i, tt := range tests {
		natstest.Publish(t, s, tt.message)
		shown, err := l.ViewDocument(natstest.Context(t), uint64(i+1))
		if err != nil || shown.Skip != plan.SkipUndecodable || !strings.HasPrefix(shown.Problem, tt.says) {
			t.Errorf("document %d is %s %q, %v, want %s", i+1, shown.Skip, shown.Problem, err, tt.says)
		}
	}
	natstest.Publish(t, s, good)
	plain := openLog(t, s)
	shown, err := plain.ViewDocument(natstest.Context(t), uint64(len(tests)+1))
	if err != nil || !strings.HasPrefix(shown.Problem, "BAD_CONTENT_TYPE: ") ||
		!strings.Contains(shown.Problem, "documents.multiple_per_message") {
		t.Errorf("a run that takes one document of each message: %q, %v", shown.Problem, err)
	}
}

// A message with a column that the run does not accept becomes a dead letter. Empty rows, nulls and unused columns
// are valid.
func TestMultipleDocuments_InvalidColumnRejectsMessage(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	tokenizing := bytesTokenizing
	tokenizing.Documents = runconfig.Documents{MultiplePerMessage: true,
		Meta: map[string]string{"lang": runconfig.MetaString,
			"year": runconfig.MetaInt64},
		Columns: map[string]runconfig.TokenColumn{"half": {Type: runconfig.ColumnFloat16},
			"flag":  {Type: runconfig.ColumnBool},
			"other": {Type: runconfig.ColumnNone}}}
	l, err := docstream.Open(natstest.Context(t), s, tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, typ arrow.DataType) *arrow.Schema {
		return fieldsOf(idsField, arrow.Field{Name: name, Type: typ, Nullable: true})
	}
	half, long := arrow.FixedWidthTypes.Float16, strings.Repeat("x", runconfig.MaxMetaBytes+1)
	header := batchOf(t, fieldsOf(idsField), `[{"ids":[1]}]`)
	header.Meta = `{"lang":"de"}`
	for i, tt := range []struct {
		message stream.Message
		says    string
	}{
		{batchOf(t, of("half", arrow.ListOf(half)), `[{"ids":[1]},{"ids":[1,2],"half":[1]}]`),
			"BAD_COLUMN: document 1: half has 1 values, the document 2 tokens"},
		{batchOf(t, of("half", arrow.ListOf(half)), `[{"ids":[],"half":[1]}]`),
			"BAD_COLUMN: document 0: half has 1 values, the document 0 tokens"},
		{batchOf(t, of("half", arrow.ListOf(arrow.PrimitiveTypes.Float32)), `[{"ids":[1],"half":[1]}]`),
			"BAD_COLUMN: column half is list<item: float32, nullable>: want list<"},
		{batchOf(t, of("half", half), `[{"ids":[1],"half":1}]`), "BAD_COLUMN: column half is float16: want list<"},
		{batchOf(t, of("flags", arrow.ListOf(half)), `[{"ids":[1],"flags":[1]}]`),
			`BAD_COLUMN: column "flags" is none of ids, id, loss, weight, flag, half, lang, other, year; declare other columns in the run's documents.columns and documents.meta`},
		{batchOf(t, of("year", arrow.PrimitiveTypes.Float64), `[{"ids":[1],"year":1}]`),
			"BAD_COLUMN: column year is float64: want int64"},
		{batchOf(t, of("lang", arrow.BinaryTypes.String), `[{"ids":[1],"lang":"`+long+`"}]`),
			"BAD_META: document 0: lang has 1025 bytes, at most 1024 can be"},
		{header, "BAD_META: header Loaderd-Meta is of one document; columns have the values of several"},
		{batchOf(t, of("half", arrow.ListOf(half)), `[{"ids":[],"half":[]}]`), ""},
		{batchOf(t, of("half", arrow.ListOf(half)), `[{"ids":[],"half":null}]`), ""},
		{batchOf(t, of("other", arrow.PrimitiveTypes.Int8), `[{"ids":[1],"other":1}]`), ""},
		{batchOf(t, of("half", arrow.ListOf(half)), `[{"ids":[1],"half":[null]},{"ids":[1]}]`), ""},
	} {
		natstest.Publish(t, s, tt.message)
		shown, err := l.ViewDocument(natstest.Context(t), uint64(i+1))
		if err != nil || !strings.HasPrefix(shown.Problem, tt.says) || tt.says == "" && shown.Problem != "" {
			t.Errorf("document %d: %q, %v, want %s", i+1, shown.Problem, err, tt.says)
		}
	}
}

// A small message that decompresses to a large size is rejected without allocating that memory.
func TestMultipleDocuments_CompressionBombIsRejected(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	l := openBatches(t, s)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, fieldsOf(idsField))
	list := builder.Field(0).(*array.ListBuilder)
	list.Append(true)
	list.ValueBuilder().(*array.Int32Builder).AppendValues(make([]int32, 12<<20), nil)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(fieldsOf(idsField)), ipc.WithZstd())
	if err := w.Write(builder.NewRecord()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, s, stream.Message{ContentType: stream.TypeArrow, Tokenizer: bytesTokenizing.Fingerprint,
		Data: b.Bytes()})
	shown, err := l.ViewDocument(natstest.Context(t), 1)
	if err != nil || !strings.HasPrefix(shown.Problem, "BAD_BATCH: ") {
		t.Errorf("%d bytes that hold 48 MiB: %q, %v", b.Len(), shown.Problem, err)
	}
}
