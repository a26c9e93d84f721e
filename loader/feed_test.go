package loader_test

import (
	"context"
	"slices"
	"testing"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/document"
)

// instantDocs is a document stream with all documents available. It closes planned once all of them are planned.
type instantDocs struct {
	*memDocs
	docs    []document.Document
	planned chan struct{}
}

// instantSource has a queue that holds all chunks.
type instantSource struct {
	blockingSource
	docs   *instantDocs
	chunks chan *document.Chunk
	left   int // undelivered chunks
}

func (d *instantDocs) Read(ctx context.Context, from uint64) (document.Source, error) {
	ready := make(chan struct{})
	close(ready)
	s := &instantSource{docs: d, chunks: make(chan *document.Chunk, len(d.docs)/64+1)}
	for docs := range slices.Chunk(d.docs, 64) {
		s.chunks <- &document.Chunk{Ready: ready, Documents: docs}
	}
	s.left = len(s.chunks)
	var err error
	s.blockingSource, err = d.open(from)
	return s, err
}

func (s *instantSource) Chunks() <-chan *document.Chunk { return s.chunks }
func (s *instantSource) Close() error                   { return nil }

func (s *instantSource) ReleaseChunk() {
	if s.left--; s.left == 0 {
		close(s.docs.planned)
	}
}

// BenchmarkLeader plans documents from a source that never waits into a plan log in memory. The difference to
// BenchmarkPlanner, which runs the planner alone, is the overhead of the leader.
func BenchmarkLeader(b *testing.B) {
	w := newFixture(config("bucket"))
	w.config.Packing.Buckets, w.config.Packing.Pool, w.config.Packing.MaxAge = []int{2048}, 4096, 16384
	w.config.Shuffle.Window, w.config.Steps.Rows, w.config.Documents.Dedupe = 1024, 64, 100_000
	w.options.Ahead, w.options.CheckpointSteps = 1<<30, 0
	docs := &instantDocs{memDocs: w.docs, docs: make([]document.Document, b.N), planned: make(chan struct{})}
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: docs} }
	lengths, tokens := someLengths(1, 1<<16), make([]int32, 1<<16)
	for i := range docs.docs {
		n := min(60*lengths[i&(1<<16-1)], len(tokens))
		docs.docs[i] = document.Document{Sequence: uint64(i + 1), ID: uint64(i + 1),
			Content: document.Content{Tokens: tokens[:n]}}
	}
	run, err := loader.Open(b.Context(), "test", w.config, w.options, w.edgesOf())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { served <- run.Serve(ctx) }()
	<-docs.planned
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "docs/s")
	cancel()
	if err := <-served; err != nil {
		b.Fatal(err)
	}
}
