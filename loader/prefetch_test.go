package loader_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/state"
)

// rangedDocs records which documents are read again, and how.
type rangedDocs struct {
	*memDocs
	asked chan []uint64 // receives the sequences of each call of Contents
	pass  chan struct{} // each call waits for a value
	done  chan struct{} // receives a value when a call has delivered everything

	mu     sync.Mutex
	times  map[uint64]int // reads of each document
	single int            // of these, reads by Content
	gone   uint64         // the lost document
}

func (d *rangedDocs) count(sequence uint64, single int) (lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times[sequence]++
	d.single += single
	return sequence == d.gone
}

func (d *rangedDocs) Content(ctx context.Context, sequence uint64) (document.Content, error) {
	if d.count(sequence, 1) {
		return document.Content{}, errPurged
	}
	return d.memDocs.Content(ctx, sequence)
}

func (d *rangedDocs) Refetch(ctx context.Context, sequences []uint64, f func(document.Document)) error {
	d.asked <- sequences
	select {
	case <-d.pass:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, sequence := range sequences {
		if !d.count(sequence, 0) {
			f(d.docs[sequence-1])
		}
	}
	d.done <- struct{}{}
	return nil
}

// written returns a fixture whose plan is complete and whose documents are in no cache.
func written(t *testing.T, documents int) (w *fixture, docs *rangedDocs, want []*assembly.Batch) {
	w = newFixture(config("bfd"))
	for i := range documents {
		w.docs.lengths(1 + i%12)
	}
	run, stop := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = read(t, run, state.RankID{World: 1}, 0, 0)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	docs = &rangedDocs{memDocs: w.docs, asked: make(chan []uint64, 100), pass: make(chan struct{}, 100),
		done: make(chan struct{}, 100), times: map[uint64]int{}}
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: docs} }
	return w, docs, want
}

func join(t *testing.T, run *loader.Run, place state.RankID, step int) *follower.Reader {
	t.Helper()
	r, err := run.Join(place, uint64(step))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// call returns the sequences of the next call of Contents.
func (d *rangedDocs) call(t *testing.T) []uint64 {
	t.Helper()
	select {
	case s := <-d.asked:
		return s
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing is read ahead")
		return nil
	}
}

// Documents that the ranks of a fixture need are read once, in stream order and in one request, before ranks request
// them.
func TestPrefetch_ReadsDocumentsOnceInOrder(t *testing.T) {
	w, docs, want := written(t, 600)
	run, _ := w.start(t)
	join(t, run, state.RankID{World: 1}, 0)
	got := docs.call(t)
	if !slices.IsSorted(got) || len(got) < 500 {
		t.Fatalf("%d documents are read together, sorted: %v", len(got), slices.IsSorted(got))
	}
	for range 100 {
		docs.pass <- struct{}{}
	}
	for rank := range 2 { // two ranks of another world
		place := state.RankID{Rank: rank, World: 2}
		for i, b := range read(t, run, place, 0, 0) {
			first, n := place.RowRange(want[i].Rows)
			if length := want[i].Bucket; !slices.Equal(tokensOf(t, b), tokensOf(t, want[i])[first*length:(first+n)*length]) {
				t.Fatalf("rank %d: step %d differs", rank, i)
			}
		}
	}
	docs.mu.Lock()
	defer docs.mu.Unlock()
	for sequence, n := range docs.times {
		if n != 1 {
			t.Errorf("document %d is read %d times", sequence, n)
		}
	}
	if docs.single > 0 {
		t.Errorf("%d documents are read by themselves although they are read ahead", docs.single)
	}
}

func TestPrefetch_StopsForClosedReader(t *testing.T) {
	w, docs, want := written(t, 3000)
	run, _ := w.start(t)
	r := join(t, run, state.RankID{World: 1}, 0)
	if first := docs.call(t); len(first) > 1024 {
		t.Fatalf("%d documents are read at a time", len(first))
	}
	r.Close()
	docs.pass <- struct{}{}
	last := len(want) - 1
	join(t, run, state.RankID{World: 1}, last)
	needs := map[uint64]bool{}
	for _, pieces := range want[last].Pieces {
		for _, p := range pieces {
			needs[p.Doc] = true
		}
	}
	for _, sequence := range docs.call(t) {
		if !needs[sequence] {
			t.Errorf("document %d is read for a reader that has gone", sequence)
		}
	}
}

func TestPrefetch_BoundedByCache(t *testing.T) {
	w, docs, _ := written(t, 600)
	w.options.CacheBytes = 8 << 10
	run, _ := w.start(t)
	join(t, run, state.RankID{World: 1}, 0)
	got, bytes := docs.call(t), 0
	for _, sequence := range got {
		bytes += 128 + 4*docs.docs[sequence-1].Len()
	}
	const step = 4 * 16 * (128 + 4) // the maximum that a step can need
	if bytes > 4<<10+step {
		t.Errorf("%d documents of %d bytes are read ahead with a cache of %d", len(got), bytes, w.options.CacheBytes)
	}
}

// The step that needs a lost document fails, and no step before it does.
func TestPrefetch_LostDocumentFailsAtItsStep(t *testing.T) {
	w, docs, want := written(t, 600)
	docs.gone = want[20].Pieces[0][0].Doc
	first := slices.IndexFunc(want, func(b *assembly.Batch) bool {
		for _, pieces := range b.Pieces {
			for _, p := range pieces {
				if p.Doc == docs.gone {
					return true
				}
			}
		}
		return false
	})
	for range 100 {
		docs.pass <- struct{}{}
	}
	run, _ := w.start(t)
	r, err := run.Join(state.RankID{World: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range want {
		s, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-docs.done // the lost document has been requested
		}
		_, err = run.Assemble(t.Context(), s, 0, len(s.Rows))
		if i == first {
			if reason(err) != fault.DocumentLost {
				t.Errorf("step %d, whose document is lost: %v", i, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("step %d of which nothing is lost: %v", i, err)
		}
	}
}
