package census

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// View is the judgement of all daemons' ranks at one time. It is immutable.
type View struct {
	Jobs     []Job // with a present process, by name and world size
	GoneJobs []Job // without a present process, of the last minutes
}

// Job is a job with one world size.
type Job struct {
	Key
	Ranks       []Rank // its processes, by rank and peer
	Present     int    // number of ranks of which every process is present
	Missing     []int  // the first maxListedRanks of the other ranks
	MinConsumed uint64 // steps consumed by the slowest present process
	MaxConsumed uint64 // steps consumed by the fastest present process
	MinSent     uint64 // least number of steps sent to a present process
	// at least one process reports what its trainer has taken; otherwise Least and Most count steps sent
	Reports bool
	Slack   uint64   // number of steps by which Least and Most may differ because reports were made at different times
	Finding *Finding // the worst finding; nil if none
}

// Rank is a process of a job.
type Rank struct {
	ProcessID
	Process
	State    State
	Daemon   string        // that serves it, or served it last; empty for this daemon
	StateAge time.Duration // time in its state, unless it is Reading
}

// State is the state of a process.
type State string

// Values of State.
const (
	Reading State = "reading" // has a stream, or its client reports
	Absent  State = "absent"  // has no stream, and its client does not report
	Silent  State = "silent"  // its client has stopped reporting
	Stuck   State = "stuck"   // holds a step, while other ranks have requested a later one
	Left    State = "left"    // its client was closed intentionally
	Ended   State = "ended"   // all requested steps were sent
)

// View merges and judges the current state of all daemons. Call it about once per second, because the step interval
// of a job is measured between calls.
func (c *Census) View(now time.Time) View {
	c.removeStale(now)
	groups := map[Key]map[ProcessID]Rank{}
	include := func(r Rank) {
		g := groups[r.Key]
		if g == nil {
			g = map[ProcessID]Rank{}
			groups[r.Key] = g
		}
		if before, ok := g[r.ProcessID]; ok {
			r = mergeRanks(before, r)
		}
		g[r.ProcessID] = r
	}
	for id, e := range c.own {
		include(Rank{ProcessID: id, Process: *e})
	}
	cut := c.truncated
	for _, name := range slices.Sorted(maps.Keys(c.remotes)) {
		s := c.remotes[name]
		for id, e := range s.entries {
			include(Rank{ProcessID: id, Process: s.currentEntry(e, now), Daemon: name})
		}
		cut = cut || s.truncated
	}
	maps.DeleteFunc(c.paces, func(k Key, _ *pace) bool { return groups[k] == nil })
	var v View
	latest := map[string]time.Time{} // per job, of its streams' openings and ends
	for _, g := range groups {
		j, present := newJob(g, now)
		if last := j.lastStreamChange(); last.After(latest[j.Job]) {
			latest[j.Job] = last
		}
		if !present {
			v.GoneJobs = append(v.GoneJobs, j)
			continue
		}
		p := c.paces[j.Key]
		if p == nil {
			p = &pace{}
			c.paces[j.Key] = p
		}
		p.advance(j.MaxConsumed, now)
		if i := p.medianInterval(); j.Reports && i > 0 {
			j.Slack = uint64(j.reportSkew() / i)
		}
		j.evaluate(evaluation{now: now, interval: p.medianInterval(), partial: cut, leftAt: c.leftJobs[j.Job],
			holdingSince: p.updateHolding(&j, now)})
		v.Jobs = append(v.Jobs, j)
	}
	// a job that continues with another world size is not gone
	v.GoneJobs = slices.DeleteFunc(v.GoneJobs, func(j Job) bool { return j.lastStreamChange().Before(latest[j.Job]) })
	byKey := func(a, b Job) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World)) }
	slices.SortFunc(v.Jobs, byKey)
	slices.SortFunc(v.GoneJobs, byKey)
	return v
}

// WithoutFormer returns the view without the processes of former world sizes. current returns the world size of a job;
// 0 if it is unknown. Processes of another one stay if none has that one, or if they have open streams.
func (v View) WithoutFormer(current func(job string) int) View {
	present := map[string]bool{} // jobs with a present process of the current world size
	for _, j := range v.Jobs {
		present[j.Job] = present[j.Job] || j.World == current(j.Job)
	}
	v.Jobs = slices.DeleteFunc(v.Jobs, func(j Job) bool {
		return present[j.Job] && j.World != current(j.Job) &&
			!slices.ContainsFunc(j.Ranks, func(r Rank) bool { return r.Streams > 0 })
	})
	return v
}

// reportSkew returns the maximum difference between the times of the last reports of two processes. Reports that
// another daemon has received arrive with its rolls.
func (j *Job) reportSkew() time.Duration {
	if slices.ContainsFunc(j.Ranks, func(r Rank) bool { return r.Daemon != "" }) {
		return reportJitter + snapshotJitter
	}
	return reportJitter
}

// mergeRanks merges the entries of two daemons for one process. The order has no effect.
func mergeRanks(a, b Rank) Rank {
	if cmp.Or(a.LastReport.Compare(b.LastReport), cmp.Compare(a.Delivered, b.Delivered), cmp.Compare(b.From, a.From),
		cmp.Compare(b.Daemon, a.Daemon)) < 0 {
		a, b = b, a
	}
	out := a // has the latest report
	out.Reports = a.Reports || b.Reports
	if a.Streams == 0 && (b.Streams > 0 || b.Since.After(a.Since)) {
		out.Since, out.Sent, out.Ended, out.Daemon = b.Since, b.Sent, b.Ended, b.Daemon
	} else if b.Streams > 0 {
		if b.Since.Before(a.Since) {
			out.Since, out.Daemon = b.Since, b.Daemon
		}
		out.Sent = max(a.Sent, b.Sent)
	}
	out.Streams = a.Streams + b.Streams
	if !out.Reports && b.LastProgress.After(a.LastProgress) {
		out.LastProgress = b.LastProgress
	}
	return out
}

// isPresent reports whether the process is present. Between two streams, a client continues to report.
func (e Process) isPresent(now time.Time) bool {
	return e.Streams > 0 || e.Reports && !e.Left && now.Sub(e.LastReport) <= warnAfter
}

// newJob collects the processes of a job, without those that were gone before the present ones connected. So a
// restarted job does not report its former processes as missing.
func newJob(g map[ProcessID]Rank, now time.Time) (j Job, present bool) {
	first := time.Time{} // when the first open stream was opened
	for id, r := range g {
		j.Key = id.Key
		if r.Streams > 0 && (first.IsZero() || r.Since.Before(first)) {
			first = r.Since
		}
	}
	for _, r := range g {
		there := r.isPresent(now)
		if !there && !first.IsZero() && r.Since.Add(warnAfter).Before(first) {
			continue
		}
		r.State = Reading
		if r.Reports {
			r.Sent = max(r.Sent, r.Delivered) // the roll of a daemon may lack these
		}
		j.Ranks = append(j.Ranks, r)
		if !there {
			continue
		}
		if consumed := r.ConsumedSteps(); !present {
			j.MinConsumed, j.MaxConsumed, j.MinSent = consumed, consumed, r.Sent
		} else {
			j.MinConsumed, j.MaxConsumed, j.MinSent = min(j.MinConsumed, consumed), max(j.MaxConsumed, consumed),
				min(j.MinSent, r.Sent)
		}
		present = true
		j.Reports = j.Reports || r.Reports
	}
	slices.SortFunc(j.Ranks, func(a, b Rank) int { return compareIDs(a.ProcessID, b.ProcessID) })
	return j, present
}

// lastStreamChange returns when a stream of the job was last opened or ended.
func (j *Job) lastStreamChange() (t time.Time) {
	for _, r := range j.Ranks {
		if r.Since.After(t) {
			t = r.Since
		}
	}
	return t
}

// pace measures the interval between the steps of a job.
type pace struct {
	maxConsumed uint64
	since       time.Time
	intervals   []time.Duration // the latest ones
	// holdingSince has, by process, since when it holds a step while another process has requested a later step; nil
	// before the first view.
	holdingSince map[ProcessID]time.Time
}

const paceIntervals = 8

func (p *pace) advance(most uint64, now time.Time) {
	if most > p.maxConsumed && !p.since.IsZero() {
		if len(p.intervals) == paceIntervals {
			p.intervals = slices.Delete(p.intervals, 0, 1)
		}
		p.intervals = append(p.intervals, now.Sub(p.since)/time.Duration(most-p.maxConsumed))
	}
	if most != p.maxConsumed || p.since.IsZero() {
		p.maxConsumed, p.since = most, now
	}
}

// updateHolding returns, for each process of a job that holds a step while another process has requested a later one,
// since when it has done so. While all processes hold the same step, none blocks the others. The time is at the
// earliest when the process got the step. At the first view it is that time.
func (p *pace) updateHolding(j *Job, now time.Time) map[ProcessID]time.Time {
	asked, behind := j.firstUnrequested(), map[ProcessID]time.Time{}
	for _, r := range j.Ranks {
		if !r.IsComputing() || asked <= r.firstUnrequested() {
			continue
		}
		since, known := p.holdingSince[r.ProcessID]
		switch {
		case p.holdingSince == nil:
			since = r.LastProgress
		case !known:
			since = now
		}
		if since.Before(r.LastProgress) {
			since = r.LastProgress
		}
		behind[r.ProcessID] = since
	}
	p.holdingSince = behind
	return behind
}

// firstUnrequested returns the first step that no trainer of the job has requested.
func (j *Job) firstUnrequested() (asked uint64) {
	for _, r := range j.Ranks {
		if r.Reports || !j.Reports {
			asked = max(asked, r.firstUnrequested())
		}
	}
	return asked
}

// medianInterval returns the median interval, or 0 before two steps.
func (p *pace) medianInterval() time.Duration {
	if len(p.intervals) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(p.intervals))[len(p.intervals)/2]
}
