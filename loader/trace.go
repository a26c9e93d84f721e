package loader

import (
	"time"

	"loaderd/loader/plan"
)

// Trace names the trace by which a sampled document is followed from its producer to the ranks, in the terms of W3C trace context.
type Trace struct {
	ID     [16]byte
	Parent [8]byte // the span that those of the daemons follow
	Ours   bool    // no producer began it: Parent is the first of the daemons' own
}

// Tracer is told what becomes of the documents that have a Trace. It must not block.
type Tracer interface {
	// Planned: between taken and stored the planner took a document and the plan log came to hold the step that begins with its first token.
	Planned(t *Trace, document, step uint64, row int, taken, stored time.Time)
}

// Traced is a document with a Trace whose first token is in a batch.
type Traced struct {
	*Trace
	Document uint64 // as the plan names it
	Row      int    // of the step
	Stored   int64  // as in Content
}

// traces are the sampled documents that the planner has taken and not planned, by the plan's names. The loop's.
type traces map[uint64]taken

type taken struct {
	trace *Trace
	at    time.Time
}

// maxTraces bounds them: some never come, as they are dropped or were planned before.
const maxTraces = 1 << 12

// take notes a document that the planner takes.
func (t traces) take(document uint64, trace *Trace) {
	if len(t) >= maxTraces {
		clear(t)
	}
	t[document] = taken{trace, time.Now()}
}

// leave returns what is to be told once a step is stored; nil where it begins no sampled document.
func (t traces) leave(s *plan.Step, tracer Tracer) func() {
	if len(t) == 0 {
		return nil
	}
	var tell []func(stored time.Time)
	for row, pieces := range s.Rows {
		for _, p := range pieces {
			x, sampled := t[p.Doc]
			if !sampled || p.Start > 0 {
				continue
			}
			delete(t, p.Doc)
			document, step := p.Doc, s.Index // the step is nobody's to keep
			tell = append(tell, func(stored time.Time) { tracer.Planned(x.trace, document, step, row, x.at, stored) })
		}
	}
	if tell == nil {
		return nil
	}
	return func() {
		now := time.Now()
		for _, f := range tell {
			f(now)
		}
	}
}
