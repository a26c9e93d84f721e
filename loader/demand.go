package loader

import "loaderd/loader/plan"

// demand is what the readers of a follower, or of all followers, want and may still ask for. The leader plans ahead of it and keeps what it
// names. It is a value that holds no times: it stays right when it comes from another machine, and late.
type demand struct {
	// Jobs holds, by the name of each job, its reader that is furthest behind. The ranks of a job advance together, so that one which stops
	// makes the plan wait instead of grow; jobs do not hold each other back.
	Jobs     map[string]ReaderStat `json:"jobs,omitempty"`
	Needed   uint64                `json:"needed"`   // the first step that a reader may still ask rows of; everyStep without readers
	Furthest uint64                `json:"furthest"` // the highest step that any reader asks for next; meaningless without readers
}

// everyStep is behind all steps.
const everyStep = 1<<64 - 1

func noDemand() demand { return demand{Jobs: map[string]ReaderStat{}, Needed: everyStep} }

// include takes in a reader, if it is the slowest of its job.
func (d *demand) include(r ReaderStat) {
	if slowest, ok := d.Jobs[r.Job]; !ok || r.Step < slowest.Step {
		d.Jobs[r.Job] = r
	}
}

// join takes in the demand of another follower.
func (d *demand) join(e demand) {
	for _, r := range e.Jobs {
		d.include(r)
	}
	d.Needed, d.Furthest = min(d.Needed, e.Needed), max(d.Furthest, e.Furthest)
}

// within returns the demand without what lies behind a step: no reader wants it.
func (d demand) within(furthest uint64) demand {
	for job, r := range d.Jobs {
		r.Step = min(r.Step, furthest)
		d.Jobs[job] = r
	}
	d.Furthest = min(d.Furthest, furthest)
	return d
}

// wanted returns the first step that no job has asked for. The slowest rank of a job counts.
func (d demand) wanted() uint64 {
	if r := d.leading(); r != nil {
		return r.Step + 1
	}
	return 0
}

// leading returns the slowest reader of the job that is furthest on; nil without readers.
func (d demand) leading() *ReaderStat {
	var out *ReaderStat
	for _, r := range d.Jobs {
		if out == nil || r.Step > out.Step || r.Step == out.Step && r.Job < out.Job {
			out = &r
		}
	}
	return out
}

// waits reports whether a reader asks for a step that is not planned yet; planned is the number of steps that are.
func (d demand) waits(planned uint64) bool { return d.Needed != everyStep && d.Furthest >= planned }

// job returns the name of a reader's job.
func (p Place) job() string {
	if p.Job == "" {
		return plan.DefaultKeeper
	}
	return p.Job
}
