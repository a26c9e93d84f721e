package docstream_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/stream"
)

// Again reads the same documents as Content does one by one. Some are next to deleted documents, far apart, large,
// deleted or undecodable.
func TestRefetcher_EqualsContentOfEachDocument(t *testing.T) {
	srv := natstest.Start(t)
	l, ctx := openLog(t, srv.Store()), natstest.Context(t)
	messages := natstest.Documents(1, 700)
	messages[300] = stream.Message{Data: bytes.Repeat([]byte("large "), 100_000)}
	messages[301] = stream.Message{Data: bytes.Repeat([]byte("large "), 100_000)}
	messages[400] = stream.Message{ContentType: stream.TypeJSON, Data: []byte("no object")}
	natstest.Publish(t, srv.Store(), messages...)
	removeDocs(t, srv.Store(), 2, 3, 250)
	var ask []uint64
	for i := uint64(1); i <= 705; i++ {
		if i%7 != 0 && (i < 500 || i > 560 || i == 530) {
			ask = append(ask, i)
		}
	}
	want := map[uint64][]int32{}
	for _, sequence := range ask {
		if again, err := l.Content(ctx, sequence); err == nil {
			want[sequence] = again.TokenIDs(0, again.Len())
		}
	}
	var mu sync.Mutex
	got := map[uint64][]int32{}
	var skipped []document.Document
	err := l.Refetch(ctx, ask, func(d document.Document) {
		sequence, content := d.Sequence, d.Content
		mu.Lock()
		defer mu.Unlock()
		if d.Skip != "" {
			skipped = append(skipped, d)
			return
		}
		if _, twice := got[sequence]; twice {
			t.Errorf("document %d is duplicated", sequence)
		}
		got[sequence] = content.TokenIDs(0, content.Len())
		if content.Stored == 0 {
			t.Errorf("document %d does not contain when it was stored", sequence)
		}
	})
	if err != nil || len(got) != len(want) || len(want) < 500 {
		t.Fatalf("%d documents instead of %d, %v", len(got), len(want), err)
	}
	if len(skipped) != 1 || skipped[0].Sequence != 401 || skipped[0].Skip != plan.SkipUndecodable {
		t.Errorf("skipped are %+v", skipped)
	}
	for sequence, tokens := range want {
		if !slices.Equal(got[sequence], tokens) {
			t.Errorf("document %d differs", sequence)
		}
	}
}
