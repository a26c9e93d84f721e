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

// judge sets the state of every process, the missing numbers and the worst finding.
func (j *Job) judge(x judgement) {
	asked := j.asked()
	var moved, since time.Time // when the job last moved; when its first stream was opened
	begun, warm := false, true
	for _, r := range j.Ranks {
		begun = begun || r.Consumed() > r.From || r.Holds() && x.now.Sub(r.Moved) >= redAfter
		if !r.present(x.now) {
			continue
		}
		if r.Moved.After(moved) {
			moved = r.Moved
		}
		if r.Streams > 0 && (since.IsZero() || r.Since.Before(since)) {
			since = r.Since
		}
		warm = warm && (!r.Reports || r.Consumed() >= r.From+2)
	}
	stalled := x.now.Sub(moved) >= x.stallAfter()
	grace := func(usual time.Duration) time.Duration {
		if warm {
			return usual
		}
		return max(usual, warmup)
	}
	judge := func(r *Rank) verdict {
		gone := x.now.Sub(r.gone())
		switch there := r.present(x.now); {
		case !there && r.Ended:
			return verdict{Ended, 0, gone}
		case !there && r.Left:
			v := verdict{Left, 0, gone}
			if asked > r.asked() && gone >= namedAfter {
				v.level = level(stalled && gone >= redAfter)
			}
			return v
		case !there:
			v := verdict{Absent, 0, gone}
			if gone >= namedAfter {
				v.level = level(begun && gone >= redAfter)
			}
			return v
		case r.Reports && r.Streams > 0 && x.now.Sub(r.Heard) >= grace(namedAfter):
			silent := x.now.Sub(r.Heard)
			return verdict{Silent, level(stalled && silent >= redAfter), silent}
		}
		if since, behind := x.behind[r.ID]; behind && x.now.Sub(since) >= grace(max(redAfter, x.stallAfter())) {
			held := x.now.Sub(since)
			return verdict{Stuck, level(held >= max(stuckRed, 3*x.interval)), held}
		}
		return verdict{Reading, 0, 0}
	}
	known, silent, reporting := map[int]bool{}, 0, 0
	var worst Finding
	var twice *int
	for i := range j.Ranks {
		r := &j.Ranks[i]
		v := judge(r)
		r.State, r.For = v.state, v.age
		known[r.Rank] = true
		if r.present(x.now) && r.Reports {
			reporting++
			if v.state == Silent {
				silent++
			}
		}
		worst.include(r, v, x.now)
	}
	worst.All = worst.State == Silent && silent == reporting && silent > 1
	for _, r := range j.Ranks {
		if r.Streams > 1 {
			twice = &r.Rank
		}
	}
	never := verdict{Absent, 0, x.now.Sub(since)}
	if never.age >= namedAfter && !since.IsZero() && !x.partial {
		never.level = level(begun && (j.Reports || twice != nil) && never.age >= redAfter)
	}
	for n, named := 0, 0; n < j.World && len(known) < j.World && named < maxNamed; n++ {
		if known[n] {
			continue
		}
		named++
		j.Missing = append(j.Missing, n)
	}
	if n := j.World - len(known); n > 0 && never.level > worst.Level {
		worst = Finding{State: Absent, Level: never.level, Ranks: slices.Clone(j.Missing), Count: n, Never: true,
			Step: j.Least, For: never.age}
	}
	lost := map[int]bool{} // numbers of which a process is missing
	for _, r := range j.Ranks {
		if r.State == Absent || r.State == Left && r.asked() < asked {
			j.Missing = append(j.Missing, r.Rank)
			lost[r.Rank] = true
		}
	}
	present := map[int]bool{}
	for _, r := range j.Ranks {
		if r.present(x.now) && !lost[r.Rank] {
			present[r.Rank] = true
		}
	}
	j.Present = len(present)
	slices.Sort(j.Missing)
	j.Missing = slices.Compact(j.Missing)
	j.Missing = j.Missing[:min(len(j.Missing), maxNamed)]
	if worst.State == Silent || worst.State == Absent {
		if step, ok := j.held(); ok && (j.Slack > 1 || step > worst.Step+1) { // its last report is some steps old
			worst.Step = max(worst.Step, step)
		}
	}
	if worst.Level > 0 && (x.left.IsZero() || since.After(x.left)) {
		worst.Key = j.Key
		if worst.State == Absent {
			worst.Twice = twice
		}
		j.Finding = &worst
	}
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
