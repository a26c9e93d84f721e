package census

import (
	"slices"
	"time"
)

// Level is the severity of a finding.
type Level int

// Values of Level.
const (
	Named Level = iota + 1 // worth reporting
	Red                    // the job cannot continue without intervention
)

// Finding names the ranks of a job that block the others.
type Finding struct {
	Key
	State State // of these ranks
	Level Level
	Ranks []int // the first maxNamed rank numbers
	Count int   // number of these ranks
	All   bool  // all present processes that report are silent
	Never bool  // absent ranks only: no process has connected, or none that is still recorded
	Step  uint64
	// since they last consumed or requested a step; for stuck ranks, since other ranks have requested more
	For   time.Duration
	Twice *int  // a rank that is read by several streams, if ranks are absent
	Rank  *Rank // the first of these ranks; nil if none is recorded
}

// Timeouts of a judgement. docs/operations.md has the table.
const (
	namedAfter = 5 * time.Second
	redAfter   = 10 * time.Second
	warmup     = time.Minute
	maxStall   = time.Minute
	stuckRed   = 2 * time.Minute
	maxNamed   = 8
	// reportJitter is the maximum difference between the times of the last reports of two clients.
	reportJitter = 1500 * time.Millisecond
	// rollJitter is the additional age of a report that another daemon has received.
	rollJitter = 1500 * time.Millisecond
)

// judgement is the input for judging a job.
type judgement struct {
	now      time.Time
	interval time.Duration // of the job's steps
	partial  bool          // some processes are unknown
	left     time.Time     // when the job left, or zero
	// behind has, by process, since when it holds a step while another process has requested a later step.
	behind map[ID]time.Time
}

// stallAfter returns the time without a consumed step after which the job is stalled.
func (x judgement) stallAfter() time.Duration { return min(max(namedAfter, 2*x.interval), maxStall) }

// verdict is the judgement of one process, or of the ranks without a process.
type verdict struct {
	state State
	level Level
	age   time.Duration
}

// condition is the state of a job that the judgements of all its processes depend on.
type condition struct {
	judgement
	asked   uint64    // first step that no process has requested
	opened  time.Time // when the first of the open streams was opened, or zero if none is open
	begun   bool      // a process has consumed a step, or has held its first step for at least redAfter
	warm    bool      // all reporting processes have consumed two steps
	stalled bool      // no process has progressed for stallAfter
}

func (j *Job) condition(x judgement) condition {
	c := condition{judgement: x, asked: j.asked(), warm: true}
	var moved time.Time
	for i := range j.Ranks {
		r := &j.Ranks[i]
		c.begun = c.begun || r.Consumed() > r.From || r.Holds() && x.now.Sub(r.Moved) >= redAfter
		if !r.present(x.now) {
			continue
		}
		if r.Moved.After(moved) {
			moved = r.Moved
		}
		if r.Streams > 0 && (c.opened.IsZero() || r.Since.Before(c.opened)) {
			c.opened = r.Since
		}
		c.warm = c.warm && (!r.Reports || r.Consumed() >= r.From+2)
	}
	c.stalled = x.now.Sub(moved) >= x.stallAfter()
	return c
}

// grace returns the time allowed to a process. It is longer during its first steps, when models are compiled.
func (c *condition) grace(usual time.Duration) time.Duration {
	if c.warm {
		return usual
	}
	return max(usual, warmup)
}

// judge judges one process.
func (c *condition) judge(r *Rank) verdict {
	if !r.present(c.now) {
		return c.judgeGone(r)
	}
	silent := c.now.Sub(r.Heard)
	if r.Reports && r.Streams > 0 && silent >= c.grace(namedAfter) {
		return verdict{Silent, level(c.stalled && silent >= redAfter), silent}
	}
	since, behind := c.behind[r.ID]
	if held := c.now.Sub(since); behind && held >= c.grace(max(redAfter, c.stallAfter())) {
		return verdict{Stuck, level(held >= max(stuckRed, 3*c.interval)), held}
	}
	return verdict{Reading, 0, 0}
}

// judgeGone judges a process that is not present.
func (c *condition) judgeGone(r *Rank) verdict {
	v := verdict{state: Absent, age: c.now.Sub(r.gone())}
	needed, red := true, c.begun
	switch {
	case r.Ended:
		v.state, needed = Ended, false
	case r.Left:
		v.state, needed, red = Left, c.asked > r.asked(), c.stalled
	}
	if needed && v.age >= namedAfter {
		v.level = level(red && v.age >= redAfter)
	}
	return v
}

// judgeNever judges the ranks that have no known process. certain reports that the job needs a process for each rank.
func (c *condition) judgeNever(certain bool) verdict {
	v := verdict{state: Absent, age: c.now.Sub(c.opened)}
	if v.age >= namedAfter && !c.opened.IsZero() && !c.partial {
		v.level = level(c.begun && certain && v.age >= redAfter)
	}
	return v
}

// judge sets the state of every process, the missing ranks and the worst finding.
func (j *Job) judge(x judgement) {
	c := j.condition(x)
	worst := j.judgeProcesses(&c)
	twice := j.readTwice()
	unknown, n := j.unknown()
	if never := c.judgeNever(j.Reports || twice != nil); n > 0 && never.level > worst.Level {
		worst = Finding{State: Absent, Level: never.level, Ranks: slices.Clone(unknown), Count: n, Never: true,
			Step: j.Least, For: never.age}
	}
	j.setMissing(&c, unknown)
	if worst.State == Silent || worst.State == Absent {
		if step, ok := j.held(); ok && (j.Slack > 1 || step > worst.Step+1) { // its last report is several steps old
			worst.Step = max(worst.Step, step)
		}
	}
	if worst.Level == 0 || !x.left.IsZero() && !c.opened.After(x.left) {
		return
	}
	worst.Key = j.Key
	if worst.State == Absent {
		worst.Twice = twice
	}
	j.Finding = &worst
}

// judgeProcesses sets the state of every process and returns the worst finding.
func (j *Job) judgeProcesses(c *condition) (worst Finding) {
	silent, reporting := 0, 0
	for i := range j.Ranks {
		r := &j.Ranks[i]
		v := c.judge(r)
		r.State, r.For = v.state, v.age
		if r.present(c.now) && r.Reports {
			reporting++
			if v.state == Silent {
				silent++
			}
		}
		worst.include(r, v, c.now)
	}
	worst.All = worst.State == Silent && silent == reporting && silent > 1
	return worst
}

// readTwice returns a rank that is read by several streams, or nil.
func (j *Job) readTwice() (twice *int) {
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.Streams > 1 {
			twice = new(r.Rank)
		}
	}
	return twice
}

// unknown returns the first maxNamed ranks without a known process, and the number of all such ranks.
func (j *Job) unknown() (numbers []int, n int) {
	known := map[int]bool{}
	for i := range j.Ranks {
		known[j.Ranks[i].Rank] = true
	}
	n = j.World - len(known)
	for k := 0; k < j.World && n > 0 && len(numbers) < maxNamed; k++ {
		if !known[k] {
			numbers = append(numbers, k)
		}
	}
	return numbers, n
}

// setMissing sets the ranks that lack a process, and the number of complete ranks.
func (j *Job) setMissing(c *condition, unknown []int) {
	j.Missing = unknown
	lost := map[int]bool{} // ranks with a missing process
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.State == Absent || r.State == Left && r.asked() < c.asked {
			j.Missing = append(j.Missing, r.Rank)
			lost[r.Rank] = true
		}
	}
	present := map[int]bool{}
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.present(c.now) && !lost[r.Rank] {
			present[r.Rank] = true
		}
	}
	j.Present = len(present)
	slices.Sort(j.Missing)
	j.Missing = slices.Compact(j.Missing)
	j.Missing = j.Missing[:min(len(j.Missing), maxNamed)]
}

// held returns the step that all reading processes hold. They wait in its collective for the other ranks, even if the
// last reports of those are old.
func (j *Job) held() (step uint64, ok bool) {
	for _, r := range j.Ranks {
		if r.State != Reading {
			continue
		}
		if !r.Holds() || ok && r.Consumed() != step {
			return 0, false
		}
		step, ok = r.Consumed(), true
	}
	return step, ok
}

func level(red bool) Level {
	if red {
		return Red
	}
	return Named
}

// order of the states: a state that explains others is first.
var order = []State{Absent, Silent, Left, Stuck}

// include adds the judgement of a process unless the finding so far is worse.
func (f *Finding) include(r *Rank, v verdict, now time.Time) {
	switch {
	case v.level == 0 || v.level < f.Level:
		return
	case v.level == f.Level && v.state != f.State && slices.Index(order, v.state) > slices.Index(order, f.State):
		return
	case v.level > f.Level || v.state != f.State:
		*f = Finding{State: v.state, Level: v.level, Step: r.Consumed(), Rank: r}
	}
	if len(f.Ranks) > 0 && f.Ranks[len(f.Ranks)-1] == r.Rank { // another process of the same rank
		return
	}
	if f.Count++; len(f.Ranks) < maxNamed {
		f.Ranks = append(f.Ranks, r.Rank)
	}
	f.Step, f.For = min(f.Step, r.Consumed()), max(f.For, now.Sub(r.Moved))
}
