package docstream_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/docstream"
)

// TestLookup_FindsByIDLabelOrPath finds documents by the producer's id, a label or a path, in headers and in JSON.
func TestLookup_FindsByIDLabelOrPath(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	l := openLog(t, store)
	if have, err := l.Lookup(ctx, "a"); err != nil || have != nil {
		t.Fatalf("in an empty stream: %v, %v", have, err)
	}
	natstest.Publish(t, store,
		stream.Message{ID: "a", Data: []byte("1")},
		stream.Message{ID: "b", Data: []byte("2")},
		stream.Message{ContentType: stream.TypeJSON, Data: []byte(`{"id":"a","text":"3"}`)},
		stream.Message{ContentType: stream.TypeJSON, Data: []byte(`{"text":"4"}`)},
		stream.Message{Data: []byte("a")},
		stream.Message{ID: "h1", Label: "d", Path: "p", Data: []byte("5")},
		stream.Message{ID: "h2", Label: "d", Data: []byte("6")},
		stream.Message{ContentType: stream.TypeJSON, Data: []byte(`{"text":"7","meta":{"path":"p"}}`)},
	)
	if d, err := l.Describe(ctx, 6); err != nil || d.ID != "d" || d.Path != "p" {
		t.Errorf("a label is shown as %q, a path as %q, %v", d.ID, d.Path, err)
	}
	for id, want := range map[string][]uint64{"a": {1, 3}, "b": {2}, "c": nil, "d": {6, 7}, "p": {6, 8}, "h1": {6}} {
		if have, err := l.Lookup(ctx, id); err != nil || !slices.Equal(have, want) {
			t.Errorf("%s: %v, %v, want %v", id, have, err, want)
		}
	}
}

// The documents of a message with several, and the pieces of a split document, are found by their ids. Show returns
// which of the message's documents they are.
func TestLookup_FindsDocumentsWithinMessages(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	tokenizing := bytesTokenizing
	tokenizing.Documents = runconfig.Documents{MultiplePerMessage: true,
		MaxTokens: runconfig.MaxTokens{At: 2, Do: runconfig.MaxSplit}}
	l, err := docstream.Open(ctx, store, tokenizing)
	if err != nil {
		t.Fatal(err)
	}
	message := batchOf(t, fieldsOf(idsField, idField, lossField, weightField),
		`[{"ids":[1],"id":"a"},{"ids":[2,3,4,5,6],"id":"long","weight":0.5}]`,
		`[{"ids":[]},{"ids":[7,8],"id":"c","loss":[false,true]}]`)
	message.ID = "m"
	bad := batchOf(t, fieldsOf(idsField, idField), `[{"ids":[-1],"id":"a"}]`)
	natstest.Publish(t, store, stream.Message{ID: "one", Data: []byte("1234")}, message, bad,
		batchOf(t, fieldsOf(idsField, idField), `[{"ids":[9],"id":"a"}]`))
	for id, want := range map[string][]uint64{"a": {2, 4}, "long": {2}, "c": {2}, "m": {2}, "one": {1}, "b": nil} {
		if have, err := l.Lookup(ctx, id); err != nil || !slices.Equal(have, want) {
			t.Errorf("%s: %v, %v, want %v", id, have, err, want)
		}
	}
	shown, err := l.ViewDocument(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	half := float32(0.5)
	for token, want := range map[int32]document.InnerDocument{0: {Index: 0, ID: "a"},
		2: {Index: 1, Start: 2, ID: "long", Weight: &half}, 4: {Index: 2, Start: 3, ID: "long", Weight: &half},
		6: {Index: 3, Start: 5, ID: "long", Weight: &half}, 9: {Index: 5, Start: 8, ID: "c"}} {
		if have, there := shown.InnerDocumentAt(token); !there || !cmp.Equal(have, want) {
			t.Errorf("token %d is of %+v, %t, want %+v", token, have, there, want)
		}
	}
	if _, there := shown.InnerDocumentAt(int32(shown.Len())); there {
		t.Error("the token behind the last one is of a document")
	}
	if n, there := shown.LossTokens(8, 11); n != 2 || !there {
		t.Errorf("%d tokens of the last document have a loss, %t: want 2", n, there)
	}
	if _, there := shown.LossTokens(8, 12); there {
		t.Error("there is a token behind the last one")
	}
	if alone, err := l.ViewDocument(ctx, 1); err != nil || !slices.Equal(alone.IDs, []string{"one", "one"}) {
		t.Errorf("a document that is split has the ids %q, %v", alone.IDs, err)
	}
}
