package loader

import (
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

const (
	// spanRetention is how long a job without readers retains documents where Options.Silent is 0.
	spanRetention = 10 * time.Minute
	// maxGoneSpans bounds the jobs without readers that a daemon remembers by name.
	maxGoneSpans = 256
)

// span is which steps the readers of a job have been handed, whichever of its ranks they read as.
type span struct {
	from uint64    // first step: its documents and later ones are retained until the job commits
	sent uint64    // steps handed to the reader that is furthest on: the index of its next one
	gone time.Time // when the last reader was closed; zero while there is one
}

// spans are those of the jobs that read from this daemon or did. A job without readers retains documents for a time, so that it can resume; how far
// it was sent steps is remembered beyond that.
type spans struct {
	of    map[string]*span
	after time.Duration // for which a job without readers retains documents
}

func newSpans(o backend.Options) *spans {
	after := o.Silent
	if after <= 0 {
		after = spanRetention
	}
	return &spans{of: map[string]*span{}, after: after}
}

// open returns the span of a job, one of whose readers begins at step next and has read from step from on.
func (s *spans) open(job string, from, next uint64, now time.Time) *span {
	x := s.of[job]
	if x == nil || !s.retains(x, now) {
		x = &span{from: from, sent: max(next, s.sent(job))}
		s.of[job] = x
	}
	x.from, x.sent, x.gone = min(x.from, from), max(x.sent, next), time.Time{}
	return x
}

// sent returns how many steps the readers of a job were handed.
func (s *spans) sent(job string) uint64 {
	if x := s.of[job]; x != nil {
		return x.sent
	}
	return 0
}

// close notes that a job has no reader any longer. Beyond maxGoneSpans the job that has been without readers for longest is forgotten. What it retains
// is added to what unnamedJob does, unless it has committed.
func (s *spans) close(job string, keepers plan.Keepers, now time.Time) {
	s.of[job].gone = now
	gone, oldest := 0, ""
	for name, x := range s.of {
		if x.gone.IsZero() || name == state.UnnamedJob {
			continue
		}
		if gone++; oldest == "" || x.gone.Before(s.of[oldest].gone) {
			oldest = name
		}
	}
	if gone <= maxGoneSpans {
		return
	}
	x := s.of[oldest]
	delete(s.of, oldest)
	if _, committed := keepers[oldest]; committed || !s.retains(x, now) {
		return
	}
	rest := s.of[state.UnnamedJob]
	if rest == nil || !s.retains(rest, now) {
		rest = &span{from: x.from}
		s.of[state.UnnamedJob] = rest
	}
	if rest.from = min(rest.from, x.from); x.gone.After(rest.gone) {
		rest.gone = x.gone
	}
}

// leave notes that a job has left: it retains no steps that it was handed so far.
func (s *spans) leave(job string) {
	if x := s.of[job]; x != nil {
		x.from = x.sent
	}
}

// retains reports whether the documents of a span are retained, unless its job has committed.
func (s *spans) retains(x *span, now time.Time) bool {
	return x.gone.IsZero() || now.Sub(x.gone) < s.after
}

// addTo returns the jobs of a demand with what each retains now, and with those that retain documents without readers.
func (s *spans) addTo(jobs map[string]state.JobDemand, now time.Time) map[string]state.JobDemand {
	out := make(map[string]state.JobDemand, len(jobs))
	for job, x := range jobs {
		if x.Reads() {
			out[job] = x
		}
	}
	for job, x := range s.of {
		if s.retains(x, now) {
			d := out[job]
			d.From, d.Sent = x.from, x.sent
			out[job] = d
		}
	}
	return out
}
