package jobspans

import (
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

const (
	// DefaultRetention is how long a job without readers retains documents if Options.Silent is 0.
	DefaultRetention = 10 * time.Minute
	// maxClosedJobs bounds the number of jobs without readers that a daemon tracks by name.
	maxClosedJobs = 256
)

// StepRange is the range of steps that the readers of a job have been sent, under any of its ranks.
type StepRange struct {
	firstStep uint64    // first step: documents from it on are retained until the job commits
	Sent      uint64    // steps sent to the furthest reader: the index of its next one
	closedAt  time.Time // when the last reader was closed; zero while a reader is open
	// reportOnly is true if the job has had no reader here, but its trainer reported what it has consumed.
	reportOnly bool
}

// Tracker holds the spans of jobs that read or have read from this daemon. A job without readers retains documents for
// a time, so that it can resume. How far it was sent steps is tracked longer than that.
type Tracker struct {
	ByJob     map[string]*StepRange
	retention time.Duration // how long a job without readers retains documents
}

// New returns a tracker without jobs.
func New(o backend.Options) *Tracker {
	after := o.IdleReaderTimeout
	if after <= 0 {
		after = DefaultRetention
	}
	return &Tracker{ByJob: map[string]*StepRange{}, retention: after}
}

// Open returns the span of a job when one of its readers starts at step next and has read from step from on.
func (s *Tracker) Open(job string, from, next uint64, now time.Time) *StepRange {
	x := s.ByJob[job]
	if x == nil || !s.retains(x, now) {
		x = &StepRange{firstStep: from, Sent: max(next, s.sentSteps(job))}
		s.ByJob[job] = x
	}
	x.firstStep, x.Sent, x.closedAt, x.reportOnly = min(x.firstStep, from), max(x.Sent, next), time.Time{}, false
	return x
}

// Report records how many steps the trainer of a job has consumed that has had no reader here.
func (s *Tracker) Report(job string, taken uint64, commits planrecord.Commits, now time.Time) {
	x := s.Open(job, taken, taken, now)
	s.Close(job, commits, now)
	x.reportOnly = true
}

// IsReportOnly reports whether the job is tracked only because of Report.
func (s *Tracker) IsReportOnly(job string) bool {
	return s.ByJob[job] != nil && s.ByJob[job].reportOnly
}

// sentSteps returns how many steps the readers of a job were sent.
func (s *Tracker) sentSteps(job string) uint64 {
	if x := s.ByJob[job]; x != nil {
		return x.Sent
	}
	return 0
}

// Close records that a job no longer has a reader. Beyond maxClosedJobs, the job that has been without readers for
// longest is removed. What it retains is added to state.UnnamedJob, unless the job has committed.
func (s *Tracker) Close(job string, commits planrecord.Commits, now time.Time) {
	s.ByJob[job].closedAt = now
	gone, oldest := 0, ""
	for name, x := range s.ByJob {
		if x.closedAt.IsZero() || name == state.UnnamedJob {
			continue
		}
		if gone++; oldest == "" || x.closedAt.Before(s.ByJob[oldest].closedAt) {
			oldest = name
		}
	}
	if gone <= maxClosedJobs {
		return
	}
	x := s.ByJob[oldest]
	delete(s.ByJob, oldest)
	if _, committed := commits[oldest]; committed || !s.retains(x, now) {
		return
	}
	rest := s.ByJob[state.UnnamedJob]
	if rest == nil || !s.retains(rest, now) {
		rest = &StepRange{firstStep: x.firstStep}
		s.ByJob[state.UnnamedJob] = rest
	}
	if rest.firstStep = min(rest.firstStep, x.firstStep); x.closedAt.After(rest.closedAt) {
		rest.closedAt = x.closedAt
	}
}

// Leave records that a job has left. It no longer retains the steps that it was sent.
func (s *Tracker) Leave(job string) {
	if x := s.ByJob[job]; x != nil {
		x.firstStep = x.Sent
	}
}

// retains reports whether the documents of a span are retained, unless its job has committed.
func (s *Tracker) retains(x *StepRange, now time.Time) bool {
	return x.closedAt.IsZero() || now.Sub(x.closedAt) < s.retention
}

// AddTo returns the jobs of a demand with what each currently retains, plus the jobs that retain documents without
// readers.
func (s *Tracker) AddTo(jobs map[string]state.JobDemand, now time.Time) map[string]state.JobDemand {
	out := make(map[string]state.JobDemand, len(jobs))
	for job, x := range jobs {
		if x.HasReaders() {
			out[job] = x
		}
	}
	for job, x := range s.ByJob {
		if s.retains(x, now) {
			d := out[job]
			d.RetainFrom, d.Sent = x.firstStep, x.Sent
			out[job] = d
		}
	}
	return out
}
