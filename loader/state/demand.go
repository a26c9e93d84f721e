package state

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"loaderd/loader/planrecord"
)

// Demand is what the readers of one or all followers need and may still request. The leader plans ahead of it and
// retains what it names. It contains no times, so it stays valid if it arrives late or from another machine.
type Demand struct {
	// Jobs has every job that reads, and every job that retains documents without readers, by name. The ranks of a job
	// advance together: if one stops, the plan waits instead of growing. Jobs do not hold each other back.
	Jobs map[string]JobDemand `json:"jobs,omitempty"`
	// the first step whose rows a reader may still request; NoStep without readers
	Needed uint64 `json:"needed"`
	// the highest next step of any reader; meaningless without readers
	Furthest uint64 `json:"furthest"`
}

// JobDemand is the demand of a job's readers, and the range of documents that the job retains.
type JobDemand struct {
	Rank       int    `json:"rank,omitempty"`  // of the slowest reader
	World      int    `json:"world,omitempty"` // of the slowest reader; 0 without readers
	Step       uint64 `json:"step,omitempty"`  // next step of the slowest reader
	RetainFrom uint64 `json:"from,omitempty"`  // first step whose documents the job retains until it commits
	Sent       uint64 `json:"sent,omitempty"`  // steps sent to the furthest reader
}

// NoStep is greater than any step.
const NoStep = 1<<64 - 1

// UnnamedJob represents the jobs beyond a bound. No job has this name, so no commit releases what it retains.
const UnnamedJob = ""

// NewDemand returns a demand without jobs that needs no step.
func NewDemand() Demand { return Demand{Jobs: map[string]JobDemand{}, Needed: NoStep} }

// HasReaders reports whether the job has a reader.
func (x JobDemand) HasReaders() bool { return x.World > 0 }

// merge merges the demand of one job from two followers.
func (x JobDemand) merge(y JobDemand) JobDemand {
	out := x
	if !x.HasReaders() || y.HasReaders() && y.Step < x.Step {
		out = y
	}
	out.RetainFrom, out.Sent = min(x.RetainFrom, y.RetainFrom), max(x.Sent, y.Sent)
	return out
}

// Merge merges the demand of another follower.
func (d *Demand) Merge(e Demand) {
	for job, x := range e.Jobs {
		if there, ok := d.Jobs[job]; ok {
			x = there.merge(x)
		}
		d.Jobs[job] = x
	}
	d.Needed, d.Furthest = min(d.Needed, e.Needed), max(d.Furthest, e.Furthest)
}

// Clamp returns the demand limited to steps up to furthest, because no reader needs later ones.
func (d Demand) Clamp(furthest uint64) Demand {
	for job, x := range d.Jobs {
		x.Step, x.RetainFrom, x.Sent = min(x.Step, furthest), min(x.RetainFrom, furthest), min(x.Sent, furthest)
		d.Jobs[job] = x
	}
	d.Furthest = min(d.Furthest, furthest)
	return d
}

// HasReaders reports whether any job has a reader.
func (d Demand) HasReaders() bool {
	for _, x := range d.Jobs {
		if x.HasReaders() {
			return true
		}
	}
	return false
}

// FirstUnrequested returns the first step that no job has requested. The slowest rank of a job counts.
func (d Demand) FirstUnrequested() uint64 {
	if r := d.LeadingReader(); r != nil {
		return r.Step + 1
	}
	return 0
}

// LeadingReader returns the slowest reader of the furthest job; nil without readers.
func (d Demand) LeadingReader() *ReaderStat {
	var out *ReaderStat
	for job, x := range d.Jobs {
		if x.HasReaders() && (out == nil || x.Step > out.Step || x.Step == out.Step && job < out.Job) {
			out = &ReaderStat{job, x.Rank, x.World, x.Step}
		}
	}
	return out
}

// HasWaiting reports whether a reader requests a step that is not planned. planned is the number of planned steps.
func (d Demand) HasWaiting(planned uint64) bool { return d.Needed != NoStep && d.Furthest >= planned }

// RetainingJob returns the uncommitted job that retains the documents of the earliest step, and that step; NoStep if
// no job retains any.
func (d Demand) RetainingJob(commits planrecord.Commits) (job string, step uint64) {
	step = NoStep
	for name, x := range d.Jobs {
		if _, committed := commits[name]; !committed && (x.RetainFrom < step || x.RetainFrom == step && name < job) {
			job, step = name, x.RetainFrom
		}
	}
	return job, step
}

// SentSteps returns the highest number of steps sent to the readers of the selected jobs.
func (d Demand) SentSteps(of func(job string) bool) (steps uint64) {
	for job, x := range d.Jobs {
		if job != UnnamedJob && x.Sent > steps && of(job) {
			steps = x.Sent
		}
	}
	return steps
}

// Truncate returns the demand with jobs of at most that many encoded bytes. It keeps the jobs with the furthest and
// the slowest readers, then those without readers. What the other jobs retain is retained by UnnamedJob. The first
// two jobs are always kept.
func (d Demand) Truncate(bytes int, commits planrecord.Commits) Demand {
	names := slices.SortedFunc(maps.Keys(d.Jobs), func(a, b string) int {
		x, y := d.Jobs[a], d.Jobs[b]
		return cmp.Or(cmp.Compare(x.Step, y.Step), cmp.Compare(b, a)) // the last one is Leading
	})
	reads := func(job string) bool { return d.Jobs[job].HasReaders() }
	order := interleaveEnds(slices.DeleteFunc(slices.Clone(names), func(job string) bool { return !reads(job) }))
	order = append(order, slices.DeleteFunc(names, reads)...)
	out := Demand{Jobs: map[string]JobDemand{}, Needed: d.Needed, Furthest: d.Furthest}
	fold := func(x JobDemand) {
		x = JobDemand{RetainFrom: x.RetainFrom}
		if rest, ok := out.Jobs[UnnamedJob]; ok {
			x = rest.merge(x)
		}
		out.Jobs[UnnamedJob] = x
	}
	bytes -= encodedJobSize(UnnamedJob, JobDemand{RetainFrom: NoStep})
	for i, job := range order {
		x := d.Jobs[job]
		bytes -= encodedJobSize(job, x)
		_, committed := commits[job]
		switch {
		case job == UnnamedJob:
			fold(x)
		case bytes >= 0 || i < 2:
			out.Jobs[job] = x
		case !committed:
			fold(x)
		}
	}
	return out
}

// interleaveEnds returns names alternately from the end and from the start.
func interleaveEnds(names []string) []string {
	out := make([]string, 0, len(names))
	for first, last := 0, len(names)-1; first <= last; last-- {
		out = append(out, names[last])
		if first < last {
			out = append(out, names[first])
		}
		first++
	}
	return out
}

// encodedJobSize returns the size of a job in an encoded demand, in bytes.
func encodedJobSize(job string, x JobDemand) int {
	name, _ := json.Marshal(job) // neither can fail
	value, _ := json.Marshal(x)
	return len(name) + len(value) + len(":,")
}
