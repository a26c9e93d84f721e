package document

// Trace identifies the trace that follows a sampled document from its producer to the ranks, in the terms of W3C
// Trace Context.
type Trace struct {
	ID              [16]byte
	Parent          [8]byte // parent span of the daemons' spans
	StartedByDaemon bool    // not started by a producer: Parent is the daemons' first span
}

// TracedDocument is a document with a Trace whose first token is in a batch.
type TracedDocument struct {
	*Trace
	Document uint64 // plan reference
	Row      int    // of the step
	Stored   int64  // see Content.Stored
}
