package leader

import (
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
)

// traces holds the sampled documents that the planner has read but not planned, by plan reference. Only the loop uses
// it.
type traces map[uint64]tracedDocument

type tracedDocument struct {
	trace  *document.Trace
	readAt time.Time
}

// maxTraces bounds traces, because some documents are never planned: they are dropped or were planned before.
const maxTraces = 1 << 12

// addDocument records a document that the planner reads.
func (t traces) addDocument(document uint64, trace *document.Trace) {
	if len(t) >= maxTraces {
		clear(t)
	}
	t[document] = tracedDocument{trace, time.Now()}
}

// stepReporter returns the function that reports a step once it is stored; nil if no sampled document begins in the
// step.
func (t traces) stepReporter(s *plan.Step, tracer backend.Tracer) func() {
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
			document, step := p.Doc, s.Index // the step must not be retained
			tell = append(tell, func(stored time.Time) { tracer.OnPlanned(x.trace, document, step, row, x.readAt, stored) })
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
