package jobspans

import (
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

const (
	// SpanRetention is how long a job without readers retains documents if Options.Silent is 0.
	SpanRetention = 10 * time.Minute
	// maxGoneSpans bounds the number of jobs without readers that a daemon tracks by name.
	maxGoneSpans = 256
)

// Span is the range of steps that the readers of a job have been sent, under any of its ranks.
type Span struct {
	from uint64    // first step: documents from it on are retained until the job commits
	Sent uint64    // steps sent to the furthest reader: the index of its next one
	gone time.Time // when the last reader was closed; zero while a reader is open
	// reported is true if the job has had no reader here, but its trainer reported what it has consumed.
	reported bool
}

// Spans holds the spans of jobs that read or have read from this daemon. A job without readers retains documents for
// a time, so that it can resume. How far it was sent steps is tracked longer than that.
type Spans struct {
	Of    map[string]*Span
	after time.Duration // how long a job without readers retains documents
}

func New(o backend.Options) *Spans {
	after := o.Silent
	if after <= 0 {
		after = SpanRetention
	}
	return &Spans{Of: map[string]*Span{}, after: after}
}

// Open returns the span of a job when one of its readers starts at step next and has read from step from on.
func (s *Spans) Open(job string, from, next uint64, now time.Time) *Span {
	x := s.Of[job]
	if x == nil || !s.retains(x, now) {
		x = &Span{from: from, Sent: max(next, s.sent(job))}
		s.Of[job] = x
	}
	x.from, x.Sent, x.gone, x.reported = min(x.from, from), max(x.Sent, next), time.Time{}, false
	return x
}

// Report records how many steps the trainer of a job has consumed that has had no reader here.
func (s *Spans) Report(job string, taken uint64, keepers planrecord.Keepers, now time.Time) {
	x := s.Open(job, taken, taken, now)
	s.Close(job, keepers, now)
	x.reported = true
}

// Reported reports whether the job is tracked only because of Report.
func (s *Spans) Reported(job string) bool { return s.Of[job] != nil && s.Of[job].reported }

// sent returns how many steps the readers of a job were sent.
func (s *Spans) sent(job string) uint64 {
	if x := s.Of[job]; x != nil {
		return x.Sent
	}
	return 0
}

// Close records that a job no longer has a reader. Beyond maxGoneSpans, the job that has been without readers for
// longest is removed. What it retains is added to state.UnnamedJob, unless the job has committed.
func (s *Spans) Close(job string, keepers planrecord.Keepers, now time.Time) {
	s.Of[job].gone = now
	gone, oldest := 0, ""
	for name, x := range s.Of {
		if x.gone.IsZero() || name == state.UnnamedJob {
			continue
		}
		if gone++; oldest == "" || x.gone.Before(s.Of[oldest].gone) {
			oldest = name
		}
	}
	if gone <= maxGoneSpans {
		return
	}
	x := s.Of[oldest]
	delete(s.Of, oldest)
	if _, committed := keepers[oldest]; committed || !s.retains(x, now) {
		return
	}
	rest := s.Of[state.UnnamedJob]
	if rest == nil || !s.retains(rest, now) {
		rest = &Span{from: x.from}
		s.Of[state.UnnamedJob] = rest
	}
	if rest.from = min(rest.from, x.from); x.gone.After(rest.gone) {
		rest.gone = x.gone
	}
}

// Leave records that a job has left. It no longer retains the steps that it was sent.
func (s *Spans) Leave(job string) {
	if x := s.Of[job]; x != nil {
		x.from = x.Sent
	}
}

// retains reports whether the documents of a span are retained, unless its job has committed.
func (s *Spans) retains(x *Span, now time.Time) bool {
	return x.gone.IsZero() || now.Sub(x.gone) < s.after
}

// AddTo returns the jobs of a demand with what each currently retains, plus the jobs that retain documents without
// readers.
func (s *Spans) AddTo(jobs map[string]state.JobDemand, now time.Time) map[string]state.JobDemand {
	out := make(map[string]state.JobDemand, len(jobs))
	for job, x := range jobs {
		if x.Reads() {
			out[job] = x
		}
	}
	for job, x := range s.Of {
		if s.retains(x, now) {
			d := out[job]
			d.From, d.Sent = x.from, x.Sent
			out[job] = d
		}
	}
	return out
}
