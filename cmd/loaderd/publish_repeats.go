package main

import (
	"context"
	"fmt"

	"loaderd/stream"
)

// repeats are documents that were published before by something else than the inputs themselves, in the summary: the same files by
// another path, or the same standard input.
type repeats struct {
	Documents int64  `json:"documents"`
	Sequence  uint64 `json:"first_sequence"` // of the first of them in the stream
	Input     string `json:"input,omitempty"`
	Path      string `json:"path,omitempty"`

	all bool // nothing else was published
}

// repeatsOf tells what was published before, nil when nothing was.
func repeatsOf(ctx context.Context, p *stream.Publisher, done stream.Published) *repeats {
	if done.Repeated == 0 {
		return nil
	}
	r := &repeats{Documents: done.Repeated, Sequence: done.FirstRepeated, all: done.Documents == 0 && done.Duplicates == done.Repeated}
	if o, err := p.Origin(ctx, r.Sequence); err == nil { // else it is said without
		r.Input, r.Path = o.Input, o.Path
	}
	return r
}

// line is the summary's.
func (r *repeats) line() string {
	as := ""
	switch {
	case r.Input != "":
		as = " as input " + r.Input
	case r.Path == "-":
		as = " from standard input"
	}
	return fmt.Sprintf("published before%s: %s, the first is document %d of the stream", as, documentCount(r.Documents), r.Sequence)
}

// warning says what to do about them. A pipe of which the first part was there was interrupted, and goes on: that is no reason to warn.
func (r *repeats) warning() string {
	if r == nil || r.Path == "-" && !r.all {
		return ""
	}
	which := "some"
	if r.all {
		which = "all"
	}
	return fmt.Sprintf("%s of these documents were %s. They stay in the stream once; to train on them once more, publish them under another --source", which, r.line())
}
