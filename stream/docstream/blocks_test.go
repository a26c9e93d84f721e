package docstream_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/google/go-cmp/cmp"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/docstream"
)

// slowEncoder takes a millisecond per part of a text, so that fetching is ahead of it.
type slowEncoder struct{}

func (slowEncoder) EncodePart(dst []int32, text []byte, first, last bool) []int32 {
	time.Sleep(time.Millisecond)
	return bytesEncoder{}.EncodePart(dst, text, first, last)
}

// A document shares no memory with its message, whose block is reused for later messages. All delivered documents
// equal those that are read again at the end.
func TestDocuments_ShareNoMemoryWithMessages(t *testing.T) {
	// Documents that are fetched and not yet tokenized fill several blocks, but only a small part of all documents. A
	// block that is released too early is therefore reused too early.
	s := natstest.StartEmbedded(t, func(c *stream.Config) { c.BufferBytes = 8 << 20 }).Store()
	tokenizing := bytesTokenizing
	tokenizing.NewEncoder = func() docstream.Encoder { return slowEncoder{} }
	tokenizing.Documents = runconfig.Documents{MultiplePerMessage: true,
		Meta:    map[string]string{"lang": runconfig.MetaString},
		Columns: map[string]runconfig.TokenColumn{"score": {Type: runconfig.ColumnFloat32}}}
	l, err := docstream.Open(natstest.Context(t), s, tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	schema := fieldsOf(idsField, idField, arrow.Field{Name: "lang", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "score", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32)})
	const n = 200
	var messages []stream.Message
	for i := range n {
		filler := bytes.Repeat([]byte{byte('a' + i%26)}, 3000*(i%9))
		messages = append(messages,
			stream.Message{ID: fmt.Sprint("text", i), Path: fmt.Sprint("path/", i), Meta: fmt.Sprintf(`{"lang":"text %d"}`, i),
				Data: filler},
			stream.Message{ContentType: stream.TypeJSON,
				Data: fmt.Appendf(nil,
					`{"id":"json%d","weight":0.5,"meta":{"lang":"json %d"},"parts":[{"text":"%s"},{"text":"b","loss":false}]}`, i,
					i, filler)},
			stream.Message{ContentType: stream.TypeTokens, Tokenizer: tokenizing.Fingerprint,
				Data: stream.AppendTokens(nil, []int32{int32(i % 250), 1, 2})},
			stream.Message{Data: []byte("panic")},
			batchOf(t, schema,
				fmt.Sprintf(
					`[{"ids":[1,2,%d],"id":"row%d","lang":"row %d","score":[1,2,%d]},{"ids":[3],"lang":"another","score":[%d]}]`,
					i%250, i, i, i, i)))
	}
	natstest.Publish(t, s, messages...)
	src := openSource(t, l, 1)
	var all []document.Document
	for range messages {
		all = append(all, nextDoc(t, src))
	}
	for i := range all {
		shown, err := l.ViewDocument(natstest.Context(t), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(shown.Document, all[i]) {
			continue // cmp.Diff is slow for long documents
		}
		if diff := cmp.Diff(shown.Document, all[i]); diff != "" {
			t.Fatalf("document %d when it is read once more, and as it came:\n%s", i+1, diff)
		}
	}
}
