package assembly_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planview"
	"loaderd/packonline"
)

// storedSource is a source whose documents are on the local disk, except every seventh.
type storedSource struct {
	document.Documents // nil: other methods are not called
	reads              atomic.Int64
}

func (s *storedSource) Open(context.Context, string, mixture.Source) (backend.Stream, error) {
	return backend.Stream{Documents: s, Stored: func(_ context.Context, sequence uint64) (document.Content, bool) {
		return contentOf(sequence), sequence%7 != 0
	}}, nil
}

func (s *storedSource) Content(_ context.Context, sequence uint64) (document.Content, error) {
	s.reads.Add(1)
	if sequence%7 != 0 {
		return document.Content{}, errors.New("it is on the local disk")
	}
	return contentOf(sequence), nil
}

func contentOf(sequence uint64) document.Content {
	return document.Content{Tokens: []int32{int32(sequence), int32(sequence)}}
}

func TestAssemble_ReadsTheLocalDiskFirst(t *testing.T) {
	source := new(storedSource)
	streams := planview.NewStreams(backend.Backends{Sources: source}, nil)
	streams.AddSources([]plan.SourceInfo{{SourceBegin: plan.SourceBegin{Name: "main"}}})
	if _, err := streams.SourceStream(t.Context(), "main", mixture.Source{}); err != nil {
		t.Fatal(err)
	}
	a := assembly.New(streams, 1<<20, 4, time.Minute, 0)
	s := &plan.Step{Bucket: 2}
	for i := range uint64(500) {
		s.Rows = append(s.Rows, []packonline.Piece{{Doc: i + 1, Length: 2}})
	}
	b, err := a.Assemble(t.Context(), s, 0, len(s.Rows))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Done()
	for _, pieces := range b.Pieces {
		doc := pieces[0].Doc
		if c := b.Contents[doc]; c.Len() != 2 || c.Tokens[0] != int32(doc) {
			t.Fatalf("document %d has %v", doc, c.Tokens)
		}
	}
	if n := source.reads.Load(); n != 500/7 {
		t.Errorf("%d of 500 documents are read from the stream, want %d", n, 500/7)
	}
}
