package backend

import (
	"time"

	"loaderd/loader/document"
)

// Tracer receives the progress of the documents that have a Trace. It must not block.
type Tracer interface {
	// OnPlanned reports that the planner read a document at taken, and that the plan log held the step with its first
	// token at stored.
	OnPlanned(t *document.Trace, document, step uint64, row int, taken, stored time.Time)
}
