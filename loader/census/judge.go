package census

import (
	"slices"
	"time"
)

// Level is how sure a finding is.
type Level int

// Levels.
const (
	Named Level = iota + 1 // worth to be named
	Red                    // the job cannot continue without help
)

// Finding names the ranks of a job that hold the others.
type Finding struct {
	Key
	State State // of these ranks
	Level Level
	Ranks []int // the first maxNamed numbers
	Count int   // of them
	All   bool  // of a silent job: no present process reports
	Never bool  // of absent ranks: no process has connected, or none that is remembered
	Step  uint64
	// since they last consumed a step or asked for one; of stuck ranks since others have asked for more
	For   time.Duration
	Twice *int  // rank that is read by several streams, where numbers are absent
	Rank  *Rank // the first of them; nil where none is remembered
}

// Times of a judgement. docs/operations.md has the table.
const (
	namedAfter = 5 * time.Second
	redAfter   = 10 * time.Second
	warmup     = time.Minute
	maxStall   = time.Minute
	stuckRed   = 2 * time.Minute
	maxNamed   = 8
	// reportJitter is by how much the last reports of two clients may differ in time.
	reportJitter = 1500 * time.Millisecond
	// rollJitter is how much older the report is that another daemon has received.
	rollJitter = 1500 * time.Millisecond
)

// judgement is what a job is judged by.
type judgement struct {
	now      time.Time
	interval time.Duration // of the job's steps
	partial  bool          // some processes are not known
	left     time.Time     // when the job left; zero else
	// behind is since when a process holds a step while another one has asked for a later step.
	behind map[ID]time.Time
}

// stallAfter returns how long no step is consumed before the job is stalled.
func (x judgement) stallAfter() time.Duration { return min(max(namedAfter, 2*x.interval), maxStall) }

// verdict is the judgement of one process, or of the numbers that have none.
type verdict struct {
	state State
	level Level
	age   time.Duration
}

// condition is what the judgements of all processes of a job rely on.
type condition struct {
	judgement
	asked   uint64    // the furthest step that a process has asked for
	opened  time.Time // when the first of the open streams was opened; zero: none is open
	begun   bool      // a process has consumed a step, or holds its first one for long
	warm    bool      // all processes that report have consumed two steps
	stalled bool      // no process has moved for stallAfter
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

// grace returns how long a process may take: more than usual for its first steps, when models are compiled.
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

// judgeNever judges the numbers that no known process has. certain: it is known that the job needs a process for each.
func (c *condition) judgeNever(certain bool) verdict {
	v := verdict{state: Absent, age: c.now.Sub(c.opened)}
	if v.age >= namedAfter && !c.opened.IsZero() && !c.partial {
		v.level = level(c.begun && certain && v.age >= redAfter)
	}
	return v
}

// judge sets the state of every process, the missing numbers and the worst finding.
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
		if step, ok := j.held(); ok && (j.Slack > 1 || step > worst.Step+1) { // its last report is some steps old
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

// readTwice returns a rank that is read by several streams; nil where there is none.
func (j *Job) readTwice() (twice *int) {
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.Streams > 1 {
			twice = new(r.Rank)
		}
	}
	return twice
}

// unknown returns the first maxNamed numbers that no known process has, and how many there are.
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

// setMissing sets the numbers without a process, and how many have one.
func (j *Job) setMissing(c *condition, unknown []int) {
	j.Missing = unknown
	lost := map[int]bool{} // numbers of which a process is missing
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

// held returns the step that all processes hold which read: they wait in its collective for the others, however old the
// last reports of those are.
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

// order of the states, the one first that explains the others.
var order = []State{Absent, Silent, Left, Stuck}

// include takes in the judgement of a process, if it is not a smaller matter.
func (f *Finding) include(r *Rank, v verdict, now time.Time) {
	switch {
	case v.level == 0 || v.level < f.Level:
		return
	case v.level == f.Level && v.state != f.State && slices.Index(order, v.state) > slices.Index(order, f.State):
		return
	case v.level > f.Level || v.state != f.State:
		*f = Finding{State: v.state, Level: v.level, Step: r.Consumed(), Rank: r}
	}
	if len(f.Ranks) > 0 && f.Ranks[len(f.Ranks)-1] == r.Rank { // another process of it
		return
	}
	if f.Count++; len(f.Ranks) < maxNamed {
		f.Ranks = append(f.Ranks, r.Rank)
	}
	f.Step, f.For = min(f.Step, r.Consumed()), max(f.For, now.Sub(r.Moved))
}
