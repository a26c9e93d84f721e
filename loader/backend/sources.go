package backend

import (
	"context"

	"loaderd/loader/document"
	"loaderd/loader/mixture"
)

// Stream is one document stream, with the low watermarks of the runs that read it.
type Stream struct {
	Documents     document.Documents
	LowWatermarks LowWatermarks // may be nil: no documents are purged
	// Stored returns the content of a document from a cache on the local disk; false if it is not there. It is nil without
	// such a cache.
	Stored func(ctx context.Context, sequence uint64) (document.Content, bool)
}

// Sources opens the streams of a run.
type Sources interface {
	// Open opens the stream of a source, and creates it if it is absent. It is called once per source.
	Open(ctx context.Context, name string, c mixture.Source) (Stream, error)
}
