package backend

import (
	"time"

	"loaderd/loader/document"
)

// Tracer is told what becomes of the documents that have a Trace. It must not block.
type Tracer interface {
	// Planned: between taken and stored the planner took a document and the plan log came to hold the step that begins
	// with its first token.
	Planned(t *document.Trace, document, step uint64, row int, taken, stored time.Time)
}
