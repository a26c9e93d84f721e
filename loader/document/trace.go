package document

// Trace names the trace by which a sampled document is followed from its producer to the ranks, in the terms of W3C
// trace context.
type Trace struct {
	ID     [16]byte
	Parent [8]byte // the span that those of the daemons follow
	Ours   bool    // no producer began it: Parent is the first of the daemons' own
}

// Traced is a document with a Trace whose first token is in a batch.
type Traced struct {
	*Trace
	Document uint64 // as the plan names it
	Row      int    // of the step
	Stored   int64  // as in Content
}
