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
	// the first step whose rows a reader may still request; EveryStep without readers
	Needed uint64 `json:"needed"`
	// the highest next step of any reader; meaningless without readers
	Furthest uint64 `json:"furthest"`
}

// JobDemand is the demand of a job's readers, and the range of documents that the job retains.
type JobDemand struct {
	Rank  int    `json:"rank,omitempty"`  // of the slowest reader
	World int    `json:"world,omitempty"` // of the slowest reader; 0 without readers
	Step  uint64 `json:"step,omitempty"`  // next step of the slowest reader
	From  uint64 `json:"from,omitempty"`  // first step whose documents the job retains until it commits
	Sent  uint64 `json:"sent,omitempty"`  // steps sent to the furthest reader
}

// EveryStep is greater than any step.
const EveryStep = 1<<64 - 1

// UnnamedJob represents the jobs beyond a bound. No job has this name, so no commit releases what it retains.
const UnnamedJob = ""

func NewDemand() Demand { return Demand{Jobs: map[string]JobDemand{}, Needed: EveryStep} }

// Reads reports whether the job has a reader.
func (x JobDemand) Reads() bool { return x.World > 0 }

// join merges the demand of one job from two followers.
func (x JobDemand) join(y JobDemand) JobDemand {
	out := x
	if !x.Reads() || y.Reads() && y.Step < x.Step {
		out = y
	}
	out.From, out.Sent = min(x.From, y.From), max(x.Sent, y.Sent)
	return out
}

// Join merges the demand of another follower.
func (d *Demand) Join(e Demand) {
	for job, x := range e.Jobs {
		if there, ok := d.Jobs[job]; ok {
			x = there.join(x)
		}
		d.Jobs[job] = x
	}
	d.Needed, d.Furthest = min(d.Needed, e.Needed), max(d.Furthest, e.Furthest)
}

// Within returns the demand limited to steps up to furthest, because no reader needs later ones.
func (d Demand) Within(furthest uint64) Demand {
	for job, x := range d.Jobs {
		x.Step, x.From, x.Sent = min(x.Step, furthest), min(x.From, furthest), min(x.Sent, furthest)
		d.Jobs[job] = x
	}
	d.Furthest = min(d.Furthest, furthest)
	return d
}

// Read reports whether any job has a reader.
func (d Demand) Read() bool {
	for _, x := range d.Jobs {
		if x.Reads() {
			return true
		}
	}
	return false
}

// Wanted returns the first step that no job has requested. The slowest rank of a job counts.
func (d Demand) Wanted() uint64 {
	if r := d.Leading(); r != nil {
		return r.Step + 1
	}
	return 0
}

// Leading returns the slowest reader of the furthest job; nil without readers.
func (d Demand) Leading() *ReaderStat {
	var out *ReaderStat
	for job, x := range d.Jobs {
		if x.Reads() && (out == nil || x.Step > out.Step || x.Step == out.Step && job < out.Job) {
			out = &ReaderStat{job, x.Rank, x.World, x.Step}
		}
	}
	return out
}

// Waits reports whether a reader requests a step that is not planned. planned is the number of planned steps.
func (d Demand) Waits(planned uint64) bool { return d.Needed != EveryStep && d.Furthest >= planned }

// Retained returns the uncommitted job that retains the documents of the earliest step, and that step; EveryStep if
// no job retains any.
func (d Demand) Retained(keepers planrecord.Keepers) (job string, step uint64) {
	step = EveryStep
	for name, x := range d.Jobs {
		if _, committed := keepers[name]; !committed && (x.From < step || x.From == step && name < job) {
			job, step = name, x.From
		}
	}
	return job, step
}

// Sent returns the highest number of steps sent to the readers of the selected jobs.
func (d Demand) Sent(of func(job string) bool) (steps uint64) {
	for job, x := range d.Jobs {
		if job != UnnamedJob && x.Sent > steps && of(job) {
			steps = x.Sent
		}
	}
	return steps
}

// Shortened returns the demand with jobs of at most that many encoded bytes. It keeps the jobs with the furthest and
// the slowest readers, then those without readers. What the other jobs retain is retained by UnnamedJob. The first
// two jobs are always kept.
func (d Demand) Shortened(bytes int, keepers planrecord.Keepers) Demand {
	names := slices.SortedFunc(maps.Keys(d.Jobs), func(a, b string) int {
		x, y := d.Jobs[a], d.Jobs[b]
		return cmp.Or(cmp.Compare(x.Step, y.Step), cmp.Compare(b, a)) // the last one is Leading
	})
	reads := func(job string) bool { return d.Jobs[job].Reads() }
	order := fromBothEnds(slices.DeleteFunc(slices.Clone(names), func(job string) bool { return !reads(job) }))
	order = append(order, slices.DeleteFunc(names, reads)...)
	out := Demand{Jobs: map[string]JobDemand{}, Needed: d.Needed, Furthest: d.Furthest}
	fold := func(x JobDemand) {
		x = JobDemand{From: x.From}
		if rest, ok := out.Jobs[UnnamedJob]; ok {
			x = rest.join(x)
		}
		out.Jobs[UnnamedJob] = x
	}
	bytes -= encodedJob(UnnamedJob, JobDemand{From: EveryStep})
	for i, job := range order {
		x := d.Jobs[job]
		bytes -= encodedJob(job, x)
		_, committed := keepers[job]
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

// fromBothEnds returns names alternately from the end and from the start.
func fromBothEnds(names []string) []string {
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

// encodedJob returns the size of a job in an encoded demand, in bytes.
func encodedJob(job string, x JobDemand) int {
	name, _ := json.Marshal(job) // neither can fail
	value, _ := json.Marshal(x)
	return len(name) + len(value) + len(":,")
}
