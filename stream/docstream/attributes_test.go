package docstream_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/filter"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/docstream"
)

// The inputs of filters are those of the document as it arrived, and equal when the message is read again.
func TestAttributes(t *testing.T) {
	srv := natstest.Start(t)
	s := srv.Store()
	tokenizing := bytesTokenizing
	tokenizing.Documents.MultiplePerMessage = true
	tokenizing.Documents.Meta = map[string]string{"lang": runconfig.MetaString, "n": runconfig.MetaInt64}
	tokenizing.Documents.MaxTokens = runconfig.MaxTokens{At: 4, Do: runconfig.MaxSplit}
	l, err := docstream.Open(natstest.Context(t), s, tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("p", filter.MaxTextBytes+1)
	natstest.Publish(t, s,
		stream.Message{Data: []byte("one"), ID: "1", Path: "a/b"},
		stream.Message{ContentType: stream.TypeJSON, Path: long,
			Data: []byte(`{"id":7,"parts":[{"text":"ab"},{"text":"\u00e9"}],"meta":{"lang":"en","other":1}}`)},
		batchOf(t, fieldsOf(idsField, idField), `[{"ids":[1,2],"id":"x"},{"ids":[1,2,3,4,5]},{"ids":[]}]`),
		stream.Message{Data: []byte("")})
	pieces := &filter.Attributes{Bytes: 20} // of a document that is split
	want := [][]*filter.Attributes{{{ID: "1", Path: "a/b", Bytes: 3}},
		{{ID: "7", Path: long[1:], Bytes: 4, Meta: []any{"en", nil}}},
		{{ID: "x", Bytes: 8}, pieces, pieces, nil}, {nil}}
	src := openSource(t, l, 1)
	var sequences []uint64
	for i, want := range want {
		check := func(d document.Document) {
			var got []*filter.Attributes
			for _, x := range d.Documents() {
				got = append(got, x.Attributes)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("message %d: -want +got:\n%s", i+1, diff)
			}
		}
		check(nextDoc(t, src))
		sequences = append(sequences, uint64(i+1))
	}
	f, err := filter.Compile(`meta.lang == "en" && tokens == 5`, tokenizing.Documents.Meta)
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, d := range refetchAll(t, l, len(sequences)) {
		a := d.Arrival()
		used += a.UsedTokens(&plan.Selection{Filters: plan.Filters{Run: f}})
	}
	if used != 5 {
		t.Errorf("%d tokens are used, want the 5 of message 2", used)
	}
}
