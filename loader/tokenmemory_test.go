package loader_test

import (
	"context"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/state"
)

// narrowDocs is a document stream that, as a real one, delivers each document in its own reusable memory.
type narrowDocs struct{ *memDocs }

type narrowSource struct{ blockingSource }

func (d narrowDocs) Read(ctx context.Context, from uint64) (document.Source, error) {
	s, err := d.memDocs.open(from)
	if err != nil {
		return nil, err
	}
	return queued(narrowSource{s}), nil
}

func (s narrowSource) Next(ctx context.Context) ([]document.Document, error) {
	docs, err := s.blockingSource.Next(ctx)
	docs = slices.Clone(docs)
	for i := range docs {
		docs[i].Content = docs[i].CloneNarrow()
	}
	return docs, err
}

// While documents' memory is reused, ranks that read a step's batch after they requested the next one get the right
// tokens. With the race detector, returned memory is overwritten.
func TestTokenMemory_ReusedBuffersKeepTokensOfReaders(t *testing.T) {
	c := config("bfd")
	c.Packing.Buckets = []int{512}
	w := newFixture(c)
	w.options.CacheBytes, w.options.Ahead = 60<<10, 16
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: narrowDocs{w.docs}} }
	tokens := func(document uint64) (ids []int32) {
		for k := range 260 + document*37%250 {
			ids = append(ids, int32((document*997+k)%60_000))
		}
		return ids
	}
	for d := range uint64(4000) {
		w.docs.publish(document.Document{Content: document.Content{Tokens: tokens(d + 1)}})
	}
	run, _ := w.start(t)
	const world, steps = 2, 300
	check := func(b *assembly.Batch) {
		ids := make([]int32, b.Rows*b.Bucket)
		b.WriteIDs(ids)
		for i, pieces := range b.Pieces {
			row := ids[i*b.Bucket:]
			for _, p := range pieces {
				if want := tokens(p.Doc)[p.Start : p.Start+p.Length]; !slices.Equal(row[:p.Length], want) {
					t.Errorf("step %d, row %d: the tokens of piece %v are others", b.Step, b.First+i, p)
				}
				row = row[p.Length:]
			}
		}
	}
	read := func(rank int) error {
		place := state.RankID{Rank: rank, World: world}
		r, err := run.Join(place, 0)
		if err != nil {
			return err
		}
		defer r.Close()
		var before *assembly.Batch
		for range steps {
			s, err := r.Next(t.Context())
			if err != nil {
				return err
			}
			first, rows := place.RowRange(len(s.Rows))
			b, err := run.Assemble(t.Context(), s, first, rows)
			if err != nil {
				return err
			}
			if before != nil {
				check(before)
				before.Done()
			}
			before = b
		}
		return nil
	}
	var ranks errgroup.Group
	for rank := range world {
		ranks.Go(func() error { return read(rank) })
	}
	if err := ranks.Wait(); err != nil {
		t.Fatal(err)
	}
}
