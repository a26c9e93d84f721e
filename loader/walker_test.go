package loader_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/document"
	"loaderd/loader/internal/feed"
	"loaderd/loader/mixture"
)

// countedDocs counts the calls of Again, and fails one of them when away is set.
type countedDocs struct {
	*memDocs
	asked atomic.Int32
	away  atomic.Bool
}

func (d *countedDocs) Refetch(ctx context.Context, sequences []uint64, f func(document.Document)) error {
	if d.asked.Add(1); d.away.CompareAndSwap(true, false) {
		return context.DeadlineExceeded
	}
	return d.memDocs.Refetch(ctx, sequences, f)
}

// A shuffled epoch delivers each document once, in its order, with few requests. This holds if a group exceeds the
// memory limit, and if servers do not respond immediately.
func TestEpochReader_DeliversEachDocumentOnce(t *testing.T) {
	const documents = 20_000
	shared := make([]int32, 4000)
	d := &countedDocs{memDocs: newDocs()}
	for range documents {
		d.publish(document.Document{Content: document.Content{Tokens: shared}})
	}
	m, err := mixture.New(mixture.Config{Sources: map[string]mixture.Source{"a": {Weight: 1, Epochs: 1, Block: 16}},
		Mix: mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}},
		map[string]mixture.SourceRange{"a": {First: 1, Last: documents, Sealed: true}})
	must(t, err)
	walk, want := m.EpochOrder(0, 0), []uint64(nil)
	for k := range uint64(documents) {
		want = append(want, walk.At(k))
	}
	for from, room := range map[uint64]int64{0: 1 << 30, 7777: 1 << 20, 2: 0} {
		d.asked.Store(0)
		d.away.Store(true)
		w := feed.NewEpochReader(d, m.EpochOrder(0, 0), from, room)
		var have []uint64
		for from+uint64(len(have)) < documents {
			docs, err := document.Receive(t.Context(), w)
			must(t, err)
			for _, x := range docs {
				have = append(have, x.Sequence)
			}
			w.ReleaseChunk()
		}
		must(t, w.Close())
		if !slices.Equal(have, want[from:]) {
			t.Errorf("from %d on the order is another one", from)
		}
		if n := d.asked.Load(); n > 2*(documents/64)+20 {
			t.Errorf("documents are asked for %d times", n)
		}
	}
}

// pacedDocs delivers a document every 3 seconds.
type pacedDocs struct{ *memDocs }

func (d pacedDocs) Refetch(ctx context.Context, sequences []uint64, f func(document.Document)) error {
	return d.memDocs.Refetch(ctx, sequences, func(x document.Document) {
		time.Sleep(3 * time.Second)
		f(x)
	})
}

// While documents of an epoch are received one by one, the status shows progress before the group is complete.
func TestEpochReader_StatusHasTimeOfLastDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const documents, from = 40, 5
		d := pacedDocs{newDocs()}
		d.lengths(slices.Repeat([]int{3}, documents)...)
		m, err := mixture.New(mixture.Config{Sources: map[string]mixture.Source{"a": {Weight: 1, Epochs: 1, Block: 40}},
			Mix: mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}},
			map[string]mixture.SourceRange{"a": {First: 1, Last: documents, Sealed: true}})
		must(t, err)
		w := feed.NewEpochReader(d, m.EpochOrder(0, 0), from, 1<<20)
		received := make(chan int, 1)
		go func() {
			docs, err := document.Receive(t.Context(), w)
			if err != nil {
				t.Error(err)
			}
			received <- len(docs)
		}()
		time.Sleep(31 * time.Second)
		if s := w.Status(); s.FetchedAt.IsZero() || time.Since(s.FetchedAt) > 3*time.Second {
			t.Errorf("the last document was received at %v, and it is %v", s.FetchedAt, time.Now())
		}
		if left := w.Status().EpochLeft; left != documents-from {
			t.Errorf("%d documents are left, want %d", left, documents-from)
		}
		n := <-received
		w.ReleaseChunk()
		if s := w.Status(); s.EpochLeft != uint64(documents-from-n) {
			t.Errorf("%d documents are left behind %d, want %d", s.EpochLeft, n, documents-from-n)
		}
		must(t, w.Close())
	})
}
