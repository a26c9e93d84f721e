package backend

import (
	"context"

	"loaderd/loader/document"
	"loaderd/loader/mixture"
)

// Stream is one document stream, and where the runs that read it say what they still need of it.
type Stream struct {
	Documents     document.Documents
	LowWatermarks LowWatermarks // may be nil: all documents stay
}

// Sources opens the streams of a run.
type Sources interface {
	// Open opens the stream of a source, and makes it where it is absent. It is called once for each source.
	Open(ctx context.Context, name string, c mixture.Source) (Stream, error)
}
