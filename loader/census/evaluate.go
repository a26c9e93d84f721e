package census

import (
	"slices"
	"time"
)

// Level is the severity of a finding.
type Level int

// Values of Level.
const (
	Warning  Level = iota + 1 // worth reporting
	Critical                  // the job cannot continue without intervention
)

// Finding names the ranks of a job that block the others.
type Finding struct {
	Key
	State          State // of these ranks
	Level          Level
	Ranks          []int // the first maxListedRanks rank numbers
	Count          int   // number of these ranks
	AllSilent      bool  // all present processes that report are silent
	NeverConnected bool  // absent ranks only: no process has connected, or none that is still recorded
	Step           uint64
	// since they last consumed or requested a step; for stuck ranks, since other ranks have requested more
	Age           time.Duration
	DuplicateRank *int  // a rank that is read by several streams, if ranks are absent
	Rank          *Rank // the first of these ranks; nil if none is recorded
}

// SilentAfter is the time without a report after which the client of an open stream is silent.
const SilentAfter = warnAfter

// Timeouts of a judgement. docs/how-to/troubleshooting.md#rank_missing has the table.
const (
	warnAfter          = 5 * time.Second
	criticalAfter      = 10 * time.Second
	warmupGrace        = time.Minute
	maxStall           = time.Minute
	stuckCriticalAfter = 2 * time.Minute
	maxListedRanks     = 8
	// reportJitter is the maximum difference between the times of the last reports of two clients.
	reportJitter = 1500 * time.Millisecond
	// snapshotJitter is the additional age of a report that another daemon has received.
	snapshotJitter = 1500 * time.Millisecond
)

// evaluation is the input of evaluate.
type evaluation struct {
	now      time.Time
	interval time.Duration // of the job's steps
	partial  bool          // some processes are unknown
	leftAt   time.Time     // when the job left, or zero
	// holdingSince has, by process, since when it holds a step while another process has requested a later step.
	holdingSince map[ProcessID]time.Time
}

// stallAfter returns the time without a consumed step after which the job is stalled.
func (x evaluation) stallAfter() time.Duration { return min(max(warnAfter, 2*x.interval), maxStall) }

// verdict is the judgement of one process, or of the ranks without a process.
type verdict struct {
	state State
	level Level
	age   time.Duration
}

// jobCondition is the state of a job that the judgements of all its processes depend on.
type jobCondition struct {
	evaluation
	firstUnrequested uint64    // first step that no process has requested
	openedAt         time.Time // when the first of the open streams was opened, or zero if none is open
	begun            bool      // a process has consumed a step, or has held its first step for at least criticalAfter
	warm             bool      // all reporting processes have consumed two steps
	stalled          bool      // no process has progressed for stallAfter
}

func (j *Job) condition(x evaluation) jobCondition {
	c := jobCondition{evaluation: x, firstUnrequested: j.firstUnrequested(), warm: true}
	var moved time.Time
	for i := range j.Ranks {
		r := &j.Ranks[i]
		c.begun = c.begun || r.ConsumedSteps() > r.From || r.IsComputing() && x.now.Sub(r.LastProgress) >= criticalAfter
		if !r.isPresent(x.now) {
			continue
		}
		if r.LastProgress.After(moved) {
			moved = r.LastProgress
		}
		if r.Streams > 0 && (c.openedAt.IsZero() || r.Since.Before(c.openedAt)) {
			c.openedAt = r.Since
		}
		c.warm = c.warm && (!r.Reports || r.ConsumedSteps() >= r.From+2)
	}
	c.stalled = x.now.Sub(moved) >= x.stallAfter()
	return c
}

// grace returns the time allowed to a process. It is longer during its first steps, when models are compiled.
func (c *jobCondition) grace(usual time.Duration) time.Duration {
	if c.warm {
		return usual
	}
	return max(usual, warmupGrace)
}

// classify returns the verdict on one process.
func (c *jobCondition) classify(r *Rank) verdict {
	if !r.isPresent(c.now) {
		return c.judgeGone(r)
	}
	silent := c.now.Sub(r.LastReport)
	if r.Reports && r.Streams > 0 && silent >= c.grace(warnAfter) {
		return verdict{Silent, levelOf(c.stalled && silent >= criticalAfter), silent}
	}
	since, behind := c.holdingSince[r.ProcessID]
	if held := c.now.Sub(since); behind && held >= c.grace(max(criticalAfter, c.stallAfter())) {
		return verdict{Stuck, levelOf(held >= max(stuckCriticalAfter, 3*c.interval)), held}
	}
	return verdict{Reading, 0, 0}
}

// judgeGone judges a process that is not present.
func (c *jobCondition) judgeGone(r *Rank) verdict {
	v := verdict{state: Absent, age: c.now.Sub(r.lastActivity())}
	needed, red := true, c.begun
	switch {
	case r.Ended:
		v.state, needed = Ended, false
	case r.Left:
		v.state, needed, red = Left, c.firstUnrequested > r.firstUnrequested(), c.stalled
	}
	if needed && v.age >= warnAfter {
		v.level = levelOf(red && v.age >= criticalAfter)
	}
	return v
}

// judgeUnconnected judges the ranks that have no known process. certain reports that the job needs a process for each
// rank.
func (c *jobCondition) judgeUnconnected(certain bool) verdict {
	v := verdict{state: Absent, age: c.now.Sub(c.openedAt)}
	if v.age >= warnAfter && !c.openedAt.IsZero() && !c.partial {
		v.level = levelOf(c.begun && certain && v.age >= criticalAfter)
	}
	return v
}

// evaluate sets the state of every process, the missing ranks and the worst finding.
func (j *Job) evaluate(x evaluation) {
	c := j.condition(x)
	worst := j.judgeProcesses(&c)
	twice := j.duplicateRank()
	unknown, n := j.unknownRanks()
	if never := c.judgeUnconnected(j.Reports || twice != nil); n > 0 && never.level > worst.Level {
		worst = Finding{State: Absent, Level: never.level, Ranks: slices.Clone(unknown), Count: n, NeverConnected: true,
			Step: j.MinConsumed, Age: never.age}
	}
	j.setMissing(&c, unknown)
	if worst.State == Silent || worst.State == Absent {
		if step, ok := j.heldStep(); ok && (j.Slack > 1 || step > worst.Step+1) { // its last report is several steps old
			worst.Step = max(worst.Step, step)
		}
	}
	if worst.Level == 0 || !x.leftAt.IsZero() && !c.openedAt.After(x.leftAt) {
		return
	}
	worst.Key = j.Key
	if worst.State == Absent {
		worst.DuplicateRank = twice
	}
	j.Finding = &worst
}

// judgeProcesses sets the state of every process and returns the worst finding.
func (j *Job) judgeProcesses(c *jobCondition) (worst Finding) {
	silent, reporting := 0, 0
	for i := range j.Ranks {
		r := &j.Ranks[i]
		v := c.classify(r)
		r.State, r.StateAge = v.state, v.age
		if r.isPresent(c.now) && r.Reports {
			reporting++
			if v.state == Silent {
				silent++
			}
		}
		worst.addRank(r, v, c.now)
	}
	worst.AllSilent = worst.State == Silent && silent == reporting && silent > 1
	return worst
}

// duplicateRank returns a rank that is read by several streams, or nil.
func (j *Job) duplicateRank() (twice *int) {
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.Streams > 1 {
			twice = new(r.Rank)
		}
	}
	return twice
}

// unknownRanks returns the first maxListedRanks ranks without a known process, and the number of all such ranks.
func (j *Job) unknownRanks() (numbers []int, n int) {
	known := map[int]bool{}
	for i := range j.Ranks {
		known[j.Ranks[i].Rank] = true
	}
	n = j.World - len(known)
	for k := 0; k < j.World && n > 0 && len(numbers) < maxListedRanks; k++ {
		if !known[k] {
			numbers = append(numbers, k)
		}
	}
	return numbers, n
}

// setMissing sets the ranks that lack a process, and the number of complete ranks.
func (j *Job) setMissing(c *jobCondition, unknown []int) {
	j.Missing = unknown
	lost := map[int]bool{} // ranks with a missing process
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.State == Absent || r.State == Left && r.firstUnrequested() < c.firstUnrequested {
			j.Missing = append(j.Missing, r.Rank)
			lost[r.Rank] = true
		}
	}
	present := map[int]bool{}
	for i := range j.Ranks {
		if r := &j.Ranks[i]; r.isPresent(c.now) && !lost[r.Rank] {
			present[r.Rank] = true
		}
	}
	j.Present = len(present)
	slices.Sort(j.Missing)
	j.Missing = slices.Compact(j.Missing)
	j.Missing = j.Missing[:min(len(j.Missing), maxListedRanks)]
}

// heldStep returns the step that all reading processes hold. They wait in its collective for the other ranks, even if
// the last reports of those are old.
func (j *Job) heldStep() (step uint64, ok bool) {
	for _, r := range j.Ranks {
		if r.State != Reading {
			continue
		}
		if !r.IsComputing() || ok && r.ConsumedSteps() != step {
			return 0, false
		}
		step, ok = r.ConsumedSteps(), true
	}
	return step, ok
}

func levelOf(red bool) Level {
	if red {
		return Critical
	}
	return Warning
}

// stateOrder of the states: a state that explains others is first.
var stateOrder = []State{Absent, Silent, Left, Stuck}

// addRank adds the judgement of a process unless the finding so far is worse.
func (f *Finding) addRank(r *Rank, v verdict, now time.Time) {
	switch {
	case v.level == 0 || v.level < f.Level:
		return
	case v.level == f.Level && v.state != f.State && slices.Index(stateOrder, v.state) > slices.Index(stateOrder, f.State):
		return
	case v.level > f.Level || v.state != f.State:
		*f = Finding{State: v.state, Level: v.level, Step: r.ConsumedSteps(), Rank: r}
	}
	if len(f.Ranks) > 0 && f.Ranks[len(f.Ranks)-1] == r.Rank { // another process of the same rank
		return
	}
	if f.Count++; len(f.Ranks) < maxListedRanks {
		f.Ranks = append(f.Ranks, r.Rank)
	}
	f.Step, f.Age = min(f.Step, r.ConsumedSteps()), max(f.Age, now.Sub(r.LastProgress))
}
