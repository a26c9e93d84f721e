package census

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// View is the judgement of all daemons' ranks at one moment. It does not change.
type View struct {
	Jobs []Job // that are present, by name and world size
	Gone []Job // none of whose processes is present, of the last minutes
}

// Job is a job with one world size.
type Job struct {
	Key
	Ranks   []Rank   // its processes, by rank and peer
	Present int      // numbers of ranks of which every process is present
	Missing []int    // the first maxNamed numbers of those that are not
	Least   uint64   // steps consumed by the present process that is furthest behind
	Most    uint64   // steps consumed by the one that is furthest on
	Sent    uint64   // steps sent to the present process that was sent least
	Reports bool     // a process reports what its trainer has taken; else Least and Most are what was sent
	Slack   uint64   // steps by which Least and Most may differ because reports are of different moments
	Finding *Finding // the worst; nil when all is well
}

// Rank is a process of a job.
type Rank struct {
	ID
	Entry
	State  State
	Daemon string        // that serves it, or did last; empty is the own one
	For    time.Duration // for which it has been in its state, where that is not Reading
}

// State is the state of a process.
type State string

// States.
const (
	Reading State = "reading" // it has a stream, or its client reports
	Absent  State = "absent"  // it has no stream, and its client does not report
	Silent  State = "silent"  // its client has stopped to report
	Stuck   State = "stuck"   // it holds a step, and other ranks have asked for a later one
	Left    State = "left"    // its client was closed on purpose
	Ended   State = "ended"   // it was sent all that it asked for
)

// View merges and judges what is known. Call it about once per second: the step interval of a job is measured between
// calls.
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
	latest := map[string]time.Time{} // per job, of what its streams did
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
	// it continues with another world size
	v.Gone = slices.DeleteFunc(v.Gone, func(j Job) bool { return j.latest().Before(latest[j.Job]) })
	byKey := func(a, b Job) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.World, b.World)) }
	slices.SortFunc(v.Jobs, byKey)
	slices.SortFunc(v.Gone, byKey)
	return v
}

// jitter returns by how much the last reports of two processes may differ in time. Those that another daemon has
// received arrive with its rolls.
func (j *Job) jitter() time.Duration {
	if slices.ContainsFunc(j.Ranks, func(r Rank) bool { return r.Daemon != "" }) {
		return reportJitter + rollJitter
	}
	return reportJitter
}

// join merges what two daemons have of one process, in either order.
func join(a, b Rank) Rank {
	if cmp.Or(a.Heard.Compare(b.Heard), cmp.Compare(a.Taken, b.Taken), cmp.Compare(b.From, a.From),
		cmp.Compare(b.Daemon, a.Daemon)) < 0 {
		a, b = b, a
	}
	out := a // with the latest report
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

// present reports whether the process is there: a client between two streams reports on.
func (e Entry) present(now time.Time) bool {
	return e.Streams > 0 || e.Reports && !e.Left && now.Sub(e.Heard) <= namedAfter
}

// newJob collects the processes of a job, without those that were gone before the present ones came: a job that begins
// again does not miss processes of its former life.
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
			r.Sent = max(r.Sent, r.Taken) // which a daemon's roll may have missed
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

// latest returns when the last stream of the job was opened or ended.
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
	intervals []time.Duration // the last ones
	// behind is since when a process holds a step while another one has asked for a later step; nil before the first view.
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

// holding returns since when each process of a job that holds a step holds it behind another one, at the most since it
// has the step: as long as all hold the same step, none holds the others. At the first view it is since it has the
// step.
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

// asked returns the first step that no trainer of the job has asked for.
func (j *Job) asked() (asked uint64) {
	for _, r := range j.Ranks {
		if r.Reports || !j.Reports {
			asked = max(asked, r.asked())
		}
	}
	return asked
}

// interval returns the median; 0 before two steps.
func (p *pace) interval() time.Duration {
	if len(p.intervals) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(p.intervals))[len(p.intervals)/2]
}
