package doclog_test

import (
	"slices"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/stream"
)

// TestLookup finds documents by the producer's id, a label or a path, in headers and in JSON.
func TestLookup(t *testing.T) {
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
