package state

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"loaderd/loader/planrecord"
)

// Demand is what the readers of a follower, or of all followers, want and may still ask for. The leader plans ahead of
// it and keeps what it names. It is a value that holds no times: it stays right when it comes from another machine, and
// late.
type Demand struct {
	// Jobs has, by its name, each job that reads, and each that retains documents without readers. The ranks of a job
	// advance together, so that one which stops makes the plan wait instead of grow; jobs do not hold each other back.
	Jobs map[string]JobDemand `json:"jobs,omitempty"`
	// the first step that a reader may still ask rows of; EveryStep without readers
	Needed uint64 `json:"needed"`
	// the highest step that any reader asks for next; meaningless without readers
	Furthest uint64 `json:"furthest"`
}

// JobDemand is what the readers of a job want, and which documents it retains.
type JobDemand struct {
	Rank  int    `json:"rank,omitempty"`  // of the reader that is furthest behind
	World int    `json:"world,omitempty"` // likewise; 0 without readers
	Step  uint64 `json:"step,omitempty"`  // that this reader asks for next
	From  uint64 `json:"from,omitempty"`  // first step whose documents the job retains until it commits
	Sent  uint64 `json:"sent,omitempty"`  // steps that were handed to its reader that is furthest on
}

// EveryStep is behind all steps.
const EveryStep = 1<<64 - 1

// UnnamedJob stands for the jobs beyond a bound. No job has this name, so no commit ends what it retains.
const UnnamedJob = ""

func NewDemand() Demand { return Demand{Jobs: map[string]JobDemand{}, Needed: EveryStep} }

// Reads reports whether the job has a reader.
func (x JobDemand) Reads() bool { return x.World > 0 }

// join returns what two followers report of one job.
func (x JobDemand) join(y JobDemand) JobDemand {
	out := x
	if !x.Reads() || y.Reads() && y.Step < x.Step {
		out = y
	}
	out.From, out.Sent = min(x.From, y.From), max(x.Sent, y.Sent)
	return out
}

// Join takes in the demand of another follower.
func (d *Demand) Join(e Demand) {
	for job, x := range e.Jobs {
		if there, ok := d.Jobs[job]; ok {
			x = there.join(x)
		}
		d.Jobs[job] = x
	}
	d.Needed, d.Furthest = min(d.Needed, e.Needed), max(d.Furthest, e.Furthest)
}

// Within returns the demand without what lies behind a step: no reader wants it.
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

// Wanted returns the first step that no job has asked for. The slowest rank of a job counts.
func (d Demand) Wanted() uint64 {
	if r := d.Leading(); r != nil {
		return r.Step + 1
	}
	return 0
}

// Leading returns the slowest reader of the job that is furthest on; nil without readers.
func (d Demand) Leading() *ReaderStat {
	var out *ReaderStat
	for job, x := range d.Jobs {
		if x.Reads() && (out == nil || x.Step > out.Step || x.Step == out.Step && job < out.Job) {
			out = &ReaderStat{job, x.Rank, x.World, x.Step}
		}
	}
	return out
}

// Waits reports whether a reader asks for a step that is not planned yet; planned is the number of steps that are.
func (d Demand) Waits(planned uint64) bool { return d.Needed != EveryStep && d.Furthest >= planned }

// Retained returns the job without a commit that retains the documents of the earliest step, and that step; EveryStep
// where no job retains any.
func (d Demand) Retained(keepers planrecord.Keepers) (job string, step uint64) {
	step = EveryStep
	for name, x := range d.Jobs {
		if _, committed := keepers[name]; !committed && (x.From < step || x.From == step && name < job) {
			job, step = name, x.From
		}
	}
	return job, step
}

// Sent returns how many steps were handed to the readers of some jobs.
func (d Demand) Sent(of func(job string) bool) (steps uint64) {
	for job, x := range d.Jobs {
		if job != UnnamedJob && x.Sent > steps && of(job) {
			steps = x.Sent
		}
	}
	return steps
}

// Shortened returns the demand with jobs of so many encoded bytes: those whose readers are furthest on and furthest
// behind, then those without readers. The others are not named; what they retain is retained for unnamedJob. The first
// two are kept in any case.
func (d Demand) Shortened(bytes int, keepers planrecord.Keepers) Demand {
	names := slices.SortedFunc(maps.Keys(d.Jobs), func(a, b string) int {
		x, y := d.Jobs[a], d.Jobs[b]
		return cmp.Or(cmp.Compare(x.Step, y.Step), cmp.Compare(b, a)) // the last one is leading
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

// fromBothEnds returns names from the last and the first one on, in turn.
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

// encodedJob returns the bytes of a job in an encoded demand.
func encodedJob(job string, x JobDemand) int {
	name, _ := json.Marshal(job) // neither can fail
	value, _ := json.Marshal(x)
	return len(name) + len(value) + len(":,")
}
