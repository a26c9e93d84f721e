package census

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// View is the judgement of all daemons' ranks at one time. It is immutable.
type View struct {
	Jobs []Job // with a present process, by name and world size
	Gone []Job // without a present process, of the last minutes
}

// Job is a job with one world size.
type Job struct {
	Key
	Ranks   []Rank   // its processes, by rank and peer
	Present int      // number of ranks of which every process is present
	Missing []int    // the first maxNamed of the other ranks
	Least   uint64   // steps consumed by the slowest present process
	Most    uint64   // steps consumed by the fastest present process
	Sent    uint64   // least number of steps sent to a present process
	Reports bool     // at least one process reports what its trainer has taken; otherwise Least and Most count steps sent
	Slack   uint64   // number of steps by which Least and Most may differ because reports were made at different times
	Finding *Finding // the worst finding; nil if none
}

// Rank is a process of a job.
type Rank struct {
	ID
	Entry
	State  State
	Daemon string        // that serves it, or served it last; empty for this daemon
	For    time.Duration // time in its state, unless it is Reading
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
	c.forget(now)
	groups := map[Key]map[ID]Rank{}
	include := func(r Rank) {
		g := groups[r.Key]
		if g == nil {
			g = map[ID]Rank{}
			groups[r.Key] = g
		}
		if before, ok := g[r.ID]; ok {
			r = join(before, r)
		}
		g[r.ID] = r
	}
	for id, e := range c.own {
		include(Rank{ID: id, Entry: *e})
	}
	cut := c.cut
	for _, name := range slices.Sorted(maps.Keys(c.others)) {
		s := c.others[name]
		for id, e := range s.entries {
			include(Rank{ID: id, Entry: s.seen(e, now), Daemon: name})
		}
		cut = cut || s.cut
	}
	maps.DeleteFunc(c.paces, func(k Key, _ *pace) bool { return groups[k] == nil })
	var v View
	latest := map[string]time.Time{} // per job, of its streams' openings and ends
	for _, g := range groups {
		j, present := newJob(g, now)
		if last := j.latest(); last.After(latest[j.Job]) {
			latest[j.Job] = last
		}
		if !present {
			v.Gone = append(v.Gone, j)
			continue
		}
		p := c.paces[j.Key]
		if p == nil {
			p = &pace{}
			c.paces[j.Key] = p
		}
		p.advance(j.Most, now)
		if i := p.interval(); j.Reports && i > 0 {
			j.Slack = uint64(j.jitter() / i)
		}
		j.judge(judgement{now: now, interval: p.interval(), partial: cut, left: c.left[j.Job], behind: p.holding(&j, now)})
		v.Jobs = append(v.Jobs, j)
	}
	// a job that continues with another world size is not gone
	v.Gone = slices.DeleteFunc(v.Gone, func(j Job) bool { return j.latest().Before(latest[j.Job]) })
	byKey := func(a, b Job) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World)) }
	slices.SortFunc(v.Jobs, byKey)
	slices.SortFunc(v.Gone, byKey)
	return v
}

// jitter returns the maximum difference between the times of the last reports of two processes. Reports that another
// daemon has received arrive with its rolls.
func (j *Job) jitter() time.Duration {
	if slices.ContainsFunc(j.Ranks, func(r Rank) bool { return r.Daemon != "" }) {
		return reportJitter + rollJitter
	}
	return reportJitter
}

// join merges the entries of two daemons for one process. The order has no effect.
func join(a, b Rank) Rank {
	if cmp.Or(a.Heard.Compare(b.Heard), cmp.Compare(a.Taken, b.Taken), cmp.Compare(b.From, a.From),
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
	if !out.Reports && b.Moved.After(a.Moved) {
		out.Moved = b.Moved
	}
	return out
}

// present reports whether the process is present. Between two streams, a client continues to report.
func (e Entry) present(now time.Time) bool {
	return e.Streams > 0 || e.Reports && !e.Left && now.Sub(e.Heard) <= namedAfter
}

// newJob collects the processes of a job, without those that were gone before the present ones connected. So a
// restarted job does not report its former processes as missing.
func newJob(g map[ID]Rank, now time.Time) (j Job, present bool) {
	first := time.Time{} // when the first open stream was opened
	for id, r := range g {
		j.Key = id.Key
		if r.Streams > 0 && (first.IsZero() || r.Since.Before(first)) {
			first = r.Since
		}
	}
	for _, r := range g {
		there := r.present(now)
		if !there && !first.IsZero() && r.Since.Add(namedAfter).Before(first) {
			continue
		}
		r.State = Reading
		if r.Reports {
			r.Sent = max(r.Sent, r.Taken) // the roll of a daemon may lack these
		}
		j.Ranks = append(j.Ranks, r)
		if !there {
			continue
		}
		if consumed := r.Consumed(); !present {
			j.Least, j.Most, j.Sent = consumed, consumed, r.Sent
		} else {
			j.Least, j.Most, j.Sent = min(j.Least, consumed), max(j.Most, consumed), min(j.Sent, r.Sent)
		}
		present = true
		j.Reports = j.Reports || r.Reports
	}
	slices.SortFunc(j.Ranks, func(a, b Rank) int { return compareIDs(a.ID, b.ID) })
	return j, present
}

// latest returns when a stream of the job was last opened or ended.
func (j *Job) latest() (t time.Time) {
	for _, r := range j.Ranks {
		if r.Since.After(t) {
			t = r.Since
		}
	}
	return t
}

// pace measures the interval between the steps of a job.
type pace struct {
	most      uint64
	at        time.Time
	intervals []time.Duration // the latest ones
	// behind has, by process, since when it holds a step while another process has requested a later step; nil before
	// the first view.
	behind map[ID]time.Time
}

const paceIntervals = 8

func (p *pace) advance(most uint64, now time.Time) {
	if most > p.most && !p.at.IsZero() {
		if len(p.intervals) == paceIntervals {
			p.intervals = slices.Delete(p.intervals, 0, 1)
		}
		p.intervals = append(p.intervals, now.Sub(p.at)/time.Duration(most-p.most))
	}
	if most != p.most || p.at.IsZero() {
		p.most, p.at = most, now
	}
}

// holding returns, for each process of a job that holds a step while another process has requested a later one, since
// when it has done so. While all processes hold the same step, none blocks the others. The time is at the earliest
// when the process got the step. At the first view it is that time.
func (p *pace) holding(j *Job, now time.Time) map[ID]time.Time {
	asked, behind := j.asked(), map[ID]time.Time{}
	for _, r := range j.Ranks {
		if !r.Holds() || asked <= r.asked() {
			continue
		}
		since, known := p.behind[r.ID]
		switch {
		case p.behind == nil:
			since = r.Moved
		case !known:
			since = now
		}
		if since.Before(r.Moved) {
			since = r.Moved
		}
		behind[r.ID] = since
	}
	p.behind = behind
	return behind
}

// asked returns the first step that no trainer of the job has requested.
func (j *Job) asked() (asked uint64) {
	for _, r := range j.Ranks {
		if r.Reports || !j.Reports {
			asked = max(asked, r.asked())
		}
	}
	return asked
}

// interval returns the median interval, or 0 before two steps.
func (p *pace) interval() time.Duration {
	if len(p.intervals) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(p.intervals))[len(p.intervals)/2]
}
