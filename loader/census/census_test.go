package census_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/loader/census"
)

// job is a simulated training job: its processes open streams, take steps and report once per second.
type job struct {
	t     *testing.T
	key   census.Key
	c     *census.Census
	now   time.Time
	ranks []*rank
	// first is when each finding first occurred, in seconds after the fault.
	first map[string]int
	fault time.Time
	also  []*census.Census // daemons that receive the rolls
}

type rank struct {
	id      census.ProcessID
	taken   uint64
	waiting bool
	moved   time.Time
	alive   bool // reports
	open    bool
	session string
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newJob(t *testing.T, name string, world, present int) *job {
	j := &job{t: t, key: census.Key{Job: name, World: world}, c: census.New(), now: began, first: map[string]int{}}
	for n := range present {
		j.open(n)
	}
	return j
}

func (j *job) open(n int) *rank {
	r := &rank{id: census.ProcessID{Key: j.key, Rank: n}, moved: j.now, alive: true, open: true,
		session: fmt.Sprint(len(j.ranks))}
	j.ranks = append(j.ranks, r)
	j.c.Open(r.id, census.Client{Session: r.session, Delivered: 0}, 0, j.now)
	return r
}

// step makes every live rank consume its step and begin the next one in lock step.
func (j *job) step() {
	for _, r := range j.ranks {
		if r.alive && r.open {
			r.taken, r.waiting, r.moved = r.taken+1, false, j.now
		}
	}
}

// second advances the time by a second: reports arrive, and the job is evaluated.
func (j *job) second() {
	j.now = j.now.Add(time.Second)
	for _, r := range j.ranks {
		j.c.RecordSent(r.id, r.taken+8, j.now)
		if r.alive {
			j.c.RecordReport(r.id, census.Report{Session: r.session, Delivered: r.taken, Waiting: r.waiting,
				SinceChange: j.now.Sub(r.moved)},
				j.now)
		}
	}
	for _, x := range append([]*census.Census{j.c}, j.also...) {
		if x != j.c {
			x.Merge("a", j.c.Snapshot(j.now), j.now)
		}
		for _, job := range x.View(j.now).Jobs {
			if f := job.Finding; f != nil {
				if _, known := j.first[say(f)]; !known {
					j.first[say(f)] = int(j.now.Sub(j.fault).Seconds())
				}
			}
		}
	}
}

func (j *job) seconds(n int) {
	for range n {
		j.second()
	}
}

// train performs one step per second.
func (j *job) train(steps int) {
	for range steps {
		j.step()
		j.second()
	}
	j.fault = j.now
}

func say(f *census.Finding) string {
	level := map[census.Level]string{census.Warning: "named", census.Critical: "red"}[f.Level]
	return fmt.Sprintf("%s %s %v of %d of %s at %d", level, f.State, f.Ranks, f.World, f.Job, f.Step)
}

// found checks the findings and the latest time of each one's first occurrence.
func (j *job) found(want map[string]int) {
	j.t.Helper()
	for text, at := range want {
		if got, made := j.first[text]; !made || got > at {
			j.t.Errorf("%q after %d s (%v), want at most %d", text, got, made, at)
		}
	}
	for text, at := range j.first {
		if _, expected := want[text]; !expected {
			j.t.Errorf("%q after %d s", text, at)
		}
	}
}

// lockStep makes the live ranks finish their step and wait for the collective of the next one.
func (j *job) lockStep() {
	for _, r := range j.ranks {
		if r.alive && r.open {
			r.taken, r.moved = r.taken+1, j.now
		}
	}
}

func (j *job) close(r *rank) {
	r.open = false
	j.c.Close(r.id, false, j.now)
}

func TestCensus_HungRank(t *testing.T) {
	j := newJob(t, "pretrain", 4, 4)
	j.train(34)
	j.ranks[3].alive = false // SIGSTOP
	j.lockStep()
	j.seconds(50)
	j.close(j.ranks[3]) // the server has received no response to its pings
	j.seconds(130)
	j.found(map[string]int{"named silent [3] of 4 of pretrain at 33": 5, "red silent [3] of 4 of pretrain at 33": 11,
		"red absent [3] of 4 of pretrain at 33": 51})
}

func TestCensus_KilledRank(t *testing.T) {
	j := newJob(t, "ddp", 2, 2)
	j.train(10)
	j.ranks[1].alive = false
	j.close(j.ranks[1])
	j.seconds(180)
	j.found(map[string]int{"named absent [1] of 2 of ddp at 9": 6, "red absent [1] of 2 of ddp at 9": 11})
	j.now = j.now.Add(time.Second)
	j.c.Open(j.ranks[1].id, census.Client{Session: "another", Delivered: 9}, 9, j.now)
	j.ranks[1].session, j.ranks[1].alive, j.ranks[1].open, j.ranks[1].moved = "another", true, true, j.now
	j.first = map[string]int{}
	j.second()
	j.found(nil)
}

// The other ranks wait for a step, receive the cause, and open their streams again. This does not count as a
// restarted job.
func TestCensus_ReopenedStreamsAreNoRestart(t *testing.T) {
	j := newJob(t, "pretrain", 3, 3)
	j.train(10)
	j.ranks[2].alive = false
	j.close(j.ranks[2])
	for range 8 {
		j.seconds(10)
		for _, r := range j.ranks[:2] {
			j.close(r)
			j.c.Open(r.id, census.Client{Session: r.session, Delivered: r.taken}, r.taken, j.now)
			r.open = true
		}
	}
	j.found(map[string]int{"named absent [2] of 3 of pretrain at 9": 6, "red absent [2] of 3 of pretrain at 9": 11})
	if f := j.c.View(j.now).Jobs[0].Finding; f == nil || f.Level != census.Critical {
		t.Errorf("%+v", f)
	}
}

func TestCensus_RankNeverConnected(t *testing.T) {
	j := newJob(t, "pretrain", 4, 3)
	j.fault = j.now
	j.seconds(20) // the others wait for it before their first step
	j.step()      // or hang in it
	j.seconds(15)
	j.found(map[string]int{"named absent [3] of 4 of pretrain at 0": 5, "red absent [3] of 4 of pretrain at 0": 31})
}

func TestCensus_DuplicateRank(t *testing.T) {
	c, id := census.New(), census.ProcessID{Key: census.Key{Job: "trainer", World: 2}}
	c.Open(id, census.Client{}, 0, began) // stock clients
	c.Open(id, census.Client{}, 0, began)
	c.RecordSent(id, 5, began.Add(time.Second))
	v := c.View(began.Add(12 * time.Second))
	if f := v.Jobs[0].Finding; f == nil || say(f) != "red absent [1] of 2 of trainer at 5" || f.DuplicateRank == nil ||
		*f.DuplicateRank != 0 || !f.NeverConnected {
		t.Errorf("%+v", f)
	}
}

func TestCensus_RankLeaves(t *testing.T) {
	j := newJob(t, "pretrain", 2, 2)
	j.train(10)
	for range 60 { // rank 0 writes the last checkpoint
		j.now = j.now.Add(time.Second)
		j.c.RecordReport(j.ranks[0].id, census.Report{Session: "0", Delivered: 10, SinceChange: time.Second}, j.now)
		j.c.RecordReport(j.ranks[1].id, census.Report{Session: "1", Delivered: 10, Left: true}, j.now)
		if f := j.c.View(j.now).Jobs[0].Finding; f != nil {
			t.Fatal(say(f))
		}
	}
	for range 60 { // it begins another step
		j.now = j.now.Add(time.Second)
		j.c.RecordReport(j.ranks[0].id, census.Report{Session: "0", Delivered: 11, SinceChange: 30 * time.Second}, j.now)
	}
	j.c.Close(j.ranks[1].id, false, j.now)
	for range 20 {
		j.now = j.now.Add(time.Second)
		j.c.RecordReport(j.ranks[0].id, census.Report{Session: "0", Delivered: 11, SinceChange: 30 * time.Second}, j.now)
	}
	if f := j.c.View(j.now).Jobs[0].Finding; f == nil || f.State != census.Left {
		t.Errorf("%+v", f)
	}
}

// Normal pauses that resemble faults: no rank has a red finding.
func TestCensus_NormalPausesAreNoFaults(t *testing.T) {
	red := func(j *job) {
		t.Helper()
		for text := range j.first {
			if text[:3] == "red" {
				t.Error(text)
			}
		}
	}
	t.Run("rank 0 evaluates for 90 s", func(t *testing.T) {
		j := newJob(t, "pretrain", 4, 4)
		j.train(20)
		for _, r := range j.ranks[1:] {
			r.taken, r.moved = r.taken+1, j.now
		}
		j.seconds(90)
		red(j)
		j.seconds(40)
		if at := j.first["red stuck [0] of 4 of pretrain at 19"]; at < 115 {
			t.Errorf("red after %d s", at)
		}
	})
	t.Run("all write a checkpoint for 5 minutes", func(t *testing.T) {
		j := newJob(t, "pretrain", 4, 4)
		j.train(20)
		j.seconds(300)
		j.found(nil)
	})
	t.Run("the first step compiles for 50 s without reports", func(t *testing.T) {
		j := newJob(t, "pretrain", 4, 4)
		j.step()
		j.second()
		for _, r := range j.ranks {
			r.alive = false
		}
		j.seconds(50)
		j.found(nil)
	})
	t.Run("documents are missing", func(t *testing.T) {
		j := newJob(t, "pretrain", 2, 2)
		j.train(20)
		for _, r := range j.ranks {
			r.waiting, r.moved = true, j.now
		}
		j.seconds(300)
		j.found(nil)
	})
	t.Run("streams are opened again", func(t *testing.T) {
		j := newJob(t, "pretrain", 2, 2)
		j.train(20)
		j.c.Close(j.ranks[1].id, false, j.now)
		j.seconds(60) // the client reports
		j.c.Open(j.ranks[1].id, census.Client{Session: "1", Delivered: 20}, 28, j.now)
		j.seconds(2)
		j.found(nil)
	})
	t.Run("all leave", func(t *testing.T) {
		j := newJob(t, "pretrain", 2, 2)
		j.train(20)
		for _, r := range j.ranks {
			r.alive = false
			j.close(r)
		}
		j.seconds(60)
		j.found(nil)
		if v := j.c.View(j.now); len(v.Jobs) != 0 || len(v.GoneJobs) != 1 || v.GoneJobs[0].MaxConsumed != 0 &&
			v.GoneJobs[0].Key != j.key {
			t.Errorf("%+v", v)
		}
	})
	t.Run("a rank has all that it asked for", func(t *testing.T) {
		j := newJob(t, "pretrain", 2, 2)
		j.train(20)
		j.ranks[1].alive, j.ranks[1].open = false, false
		j.c.Close(j.ranks[1].id, true, j.now)
		j.seconds(60)
		j.found(nil)
	})
}

func TestCensus_SlowStepsAreNotIdle(t *testing.T) {
	j := newJob(t, "pretrain", 2, 2)
	for range 6 {
		j.step()
		j.seconds(20)
	}
	j.fault = j.now
	j.step()
	j.ranks[1].alive = false
	j.seconds(120)
	j.found(map[string]int{"named silent [1] of 2 of pretrain at 5": 6, "red silent [1] of 2 of pretrain at 5": 42})
}

func TestCensus_JobsAndWorldsAreJudgedSeparately(t *testing.T) {
	j := newJob(t, "pretrain", 2, 2)
	other := newJob(t, "eval", 1, 1)
	notebook := newJob(t, "pretrain", 1, 1)
	other.c, notebook.c = j.c, j.c
	other.c.Open(other.ranks[0].id, census.Client{Session: "0", Delivered: 0}, 0, began)
	notebook.c.Open(notebook.ranks[0].id, census.Client{Session: "0", Delivered: 0}, 0, began)
	for range 20 {
		other.step()
		other.second()
		notebook.step()
		notebook.second()
		j.step()
		j.second()
	}
	j.fault = j.now
	j.ranks[1].alive = false
	j.lockStep()
	for range 30 {
		other.step()
		other.second()
		notebook.second()
		j.second()
	}
	j.found(map[string]int{"named silent [1] of 2 of pretrain at 19": 6, "red silent [1] of 2 of pretrain at 19": 11})
	v := j.c.View(j.now)
	if len(v.Jobs) != 3 || v.Jobs[0].Finding != nil || v.Jobs[1].Finding != nil {
		t.Errorf("%+v", v.Jobs)
	}
}

func TestCensus_WorldChanges(t *testing.T) {
	j := newJob(t, "pretrain", 4, 4)
	j.train(20)
	j.ranks[3].alive = false
	j.close(j.ranks[3])
	j.seconds(20)
	for _, r := range j.ranks[:3] {
		r.alive = false
		j.close(r)
	}
	j.first = map[string]int{}
	k := newJob(t, "pretrain", 2, 0)
	k.c, k.now, k.fault = j.c, j.now.Add(6*time.Second), j.now
	k.open(0)
	k.open(1)
	k.train(20)
	k.found(nil)
	if v := k.c.View(k.now); len(v.Jobs) != 1 || len(v.GoneJobs) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestCensus_JobLeaves(t *testing.T) {
	j := newJob(t, "pretrain", 2, 2)
	j.train(20)
	j.ranks[1].alive = false
	j.close(j.ranks[1])
	j.c.Leave("pretrain", j.now)
	j.seconds(60)
	j.found(nil)
}

// Two daemons serve a job. Each has the ranks of the other in its census, and applies reports to ranks that the other
// serves.
func TestCensus_TwoDaemons(t *testing.T) {
	a, b := census.New(), census.New()
	id := func(n int) census.ProcessID {
		return census.ProcessID{Key: census.Key{Job: "pretrain", World: 2}, Rank: n}
	}
	a.Open(id(0), census.Client{Session: "0", Delivered: 0}, 0, began)
	b.Open(id(1), census.Client{Session: "1", Delivered: 0}, 0, began)
	now, taken := began, uint64(0)
	second := func(alive bool, at *census.Census) *census.Finding {
		t.Helper()
		now = now.Add(time.Second)
		if !a.RecordReport(id(0), census.Report{Session: "0", Delivered: taken}, now) {
			t.Fatal("unknown")
		}
		if alive {
			at.RecordReport(id(1), census.Report{Session: "1", Delivered: taken}, now)
		}
		b.Merge("a", a.Snapshot(now), now)
		if alive || at == b {
			a.Merge("b", b.Snapshot(now), now)
		}
		v := a.View(now)
		if len(v.Jobs) != 1 {
			t.Fatalf("%+v", v)
		}
		return v.Jobs[0].Finding
	}
	for taken = 1; taken < 20; taken++ {
		at := b
		if taken > 10 { // the client of rank 1 reports to the daemon that does not serve it
			at = a
		}
		if f := second(true, at); f != nil {
			t.Fatal(say(f))
		}
	}
	first := map[string]int{}
	for n := range 30 { // rank 1 and its daemon are gone
		if f := second(false, a); f != nil && first[say(f)] == 0 {
			first[say(f)] = n + 1
		}
	}
	if want := map[string]int{"named absent [1] of 2 of pretrain at 19": 6,
		"red absent [1] of 2 of pretrain at 19": 10}; fmt.Sprint(first) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", first, want)
	}
	a.Open(id(1), census.Client{Session: "2", Delivered: 19}, 19, now)
	if f := second(false, a); f != nil {
		t.Error(say(f))
	}
}

// The streams of a job are silent once no client has reported for 5 s, to any daemon. A client that never reports is
// not silent.
func TestCensus_OpenStreams(t *testing.T) {
	a, b, now := census.New(), census.New(), began
	key := census.Key{Job: "pretrain", World: 16}
	id := func(n int) census.ProcessID { return census.ProcessID{Key: key, Rank: n} }
	for n := range 10 {
		b.Open(id(n), census.Client{Session: "s", Address: fmt.Sprintf("10.0.0.%d:4000", n)}, 0, now)
	}
	pass := func(d time.Duration) census.OpenStreams {
		now = now.Add(d)
		a.Merge("b", b.Snapshot(now), now)
		return a.OpenStreams(key, now)
	}
	open := pass(4 * time.Second)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; open.Count != 10 || !slices.Equal(open.Ranks, want) || open.AreSilent(now) ||
		!open.LastReport.Equal(began) || open.Daemon != "b" {
		t.Errorf("%+v", open)
	}
	if own := b.OpenStreams(key, now); own.Daemon != "" || own.Address != "10.0.0.0:4000" {
		t.Errorf("%+v", own)
	}
	a.RecordReport(id(9), census.Report{Session: "s"}, now)
	if open = pass(4 * time.Second); open.AreSilent(now) || !open.LastReport.Equal(began.Add(4*time.Second)) {
		t.Errorf("after a report to the other daemon: %+v", open)
	}
	if open = pass(time.Second); !open.AreSilent(now) {
		t.Errorf("5 s later: %+v", open)
	}
	b.Open(id(3), census.Client{}, 0, now)
	b.Close(id(2), false, now)
	if open = pass(time.Minute); open.AreSilent(now) || open.Count != 9 || slices.Contains(open.Ranks, 2) {
		t.Errorf("a client that does not report: %+v", open)
	}
	if now = now.Add(4 * time.Second); a.OpenStreams(key, now).Count != 0 {
		t.Error("streams of a daemon that is gone")
	}
}

// A job takes many steps between two reports. The different times of reports do not count as different steps of
// ranks. The step reported for a hung rank is the one that the other ranks hold.
func TestCensus_FastSteps(t *testing.T) {
	c, now, taken, moved := census.New(), began, uint64(0), began
	id := func(n int) census.ProcessID {
		return census.ProcessID{Key: census.Key{Job: "pretrain", World: 4}, Rank: n}
	}
	for n := range 4 {
		c.Open(id(n), census.Client{Session: "s"}, 0, now)
	}
	tick := func(step uint64, alive int) census.Job {
		if now, taken = now.Add(100*time.Millisecond), taken+step; step > 0 {
			moved = now
		}
		tenth := int(now.Sub(began)/(100*time.Millisecond)) % 10
		for n := range alive { // each reports once per second, at a different time
			if tenth == 3*n {
				c.RecordReport(id(n), census.Report{Session: "s", Delivered: taken, SinceChange: now.Sub(moved)}, now)
			}
		}
		if tenth != 5 {
			return census.Job{}
		}
		return c.View(now).Jobs[0]
	}
	for range 300 {
		if j := tick(1, 4); j.World > 0 && now.Sub(began) > 5*time.Second &&
			(j.MaxConsumed-j.MinConsumed < 5 || j.MaxConsumed-j.MinConsumed > j.Slack || j.Finding != nil) {
			t.Fatalf("%d to %d, %d of it may be reports: %+v", j.MinConsumed, j.MaxConsumed, j.Slack, j.Finding)
		}
	}
	var last census.Job
	for range 150 { // rank 3 hangs in step 299
		if j := tick(0, 3); j.World > 0 {
			last = j
		}
	}
	if f := last.Finding; f == nil || say(f) != "red silent [3] of 4 of pretrain at 299" {
		t.Errorf("%+v", f)
	}
}

// Ranks of two daemons: a daemon's information on the other daemon's ranks is older than its own reports, by up to
// the interval of rolls.
func TestCensus_FastStepsOfTwoDaemons(t *testing.T) {
	a, b, now, taken := census.New(), census.New(), began, uint64(0)
	id := func(n int) census.ProcessID {
		return census.ProcessID{Key: census.Key{Job: "pretrain", World: 2}, Rank: n}
	}
	a.Open(id(0), census.Client{Session: "s"}, 0, now)
	b.Open(id(1), census.Client{Session: "s"}, 0, now)
	for tenth := range 300 {
		moved := now
		now, taken = now.Add(100*time.Millisecond), taken+2
		report := census.Report{Session: "s", Delivered: taken, SinceChange: now.Sub(moved)}
		switch tenth % 10 {
		case 0:
			a.Merge("b", b.Snapshot(now), now) // just before the next report
		case 1:
			b.RecordReport(id(1), report, now)
		case 9:
			a.RecordReport(id(0), report, now)
			j := a.View(now).Jobs[0]
			if tenth > 50 && (j.MaxConsumed-j.MinConsumed < 30 || j.MaxConsumed-j.MinConsumed > j.Slack || j.Finding != nil) {
				t.Fatalf("%d to %d, %d of it may be reports: %+v", j.MinConsumed, j.MaxConsumed, j.Slack, j.Finding)
			}
		}
	}
}

// A roll that is sent in pages is merged like an undivided roll. Only a complete roll marks processes as gone.
func TestRoll_PagesMergeLikeUndividedRoll(t *testing.T) {
	const bytes = 4096
	here, now := census.New(), began
	open := func(name string, world, from, to int) {
		for n := from; n < to; n++ {
			here.Open(census.ProcessID{Key: census.Key{Job: name, World: world}, Rank: n},
				census.Client{Session: "s", Delivered: 1 << 50},
				1<<50, now)
		}
	}
	long := strings.Repeat("<", 60)
	open("a", 400, 0, 400)
	open(long, 100, 0, 100)
	for n := range 50 {
		open(fmt.Sprintf("%s%02d", long, n), 1, 0, 1)
	}
	there, paged := census.New(), census.New()
	merge := func(skip int) {
		t.Helper()
		whole := here.Snapshot(now)
		there.Merge("d", whole, now)
		pages := whole.SplitPages(bytes)
		if len(pages) < 5 {
			t.Fatalf("%d pages", len(pages))
		}
		for i, p := range pages {
			b, err := json.Marshal(p)
			if err != nil || len(b) > bytes {
				t.Fatalf("page %d has %d bytes: %v", i, len(b), err)
			}
			if err := p.Validate(func(string) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if i != skip {
				paged.Merge("d", p, now)
			}
		}
	}
	merge(-1)
	if a, b := there.View(now), paged.View(now); !reflect.DeepEqual(a, b) {
		t.Fatalf("merged whole: %+v\nin pages: %+v", a, b)
	}
	streams := func() (n int) {
		for _, j := range paged.View(now).Jobs {
			for _, r := range j.Ranks {
				n += r.Streams
			}
		}
		return n
	}
	merge(3)
	if n := streams(); n != 550 {
		t.Errorf("%d streams when a page is lost, want 550", n)
	}
	here = census.New() // its daemon has restarted, and serves fewer processes
	open("a", 400, 0, 300)
	merge(-1)
	if n := streams(); n != 300 {
		t.Errorf("%d streams, want 300", n)
	}
}

// Ranks that hold a step because another rank hung are not stuck when one of them continues slightly earlier than the
// others.
func TestView_RanksWaitingForHungRankAreNotStuck(t *testing.T) {
	c, now := census.New(), time.Unix(1e9, 0)
	key := census.Key{Job: "pretrain", World: 3}
	report := func(rank int, taken uint64, moved time.Time) {
		c.RecordReport(census.ProcessID{Key: key, Rank: rank}, census.Report{Session: "s", Delivered: taken,
			SinceChange: now.Sub(moved)}, now)
	}
	for rank := range 3 {
		c.Open(census.ProcessID{Key: key, Rank: rank}, census.Client{Session: "s"}, 0, now)
	}
	began := now
	for second := range 200 {
		now = began.Add(time.Duration(second) * time.Second)
		taken, moved := uint64(second), now
		if second > 100 { // all hold the same step
			taken, moved = 100, began.Add(100*time.Second)
		}
		first, at := taken, moved
		if second > 150 { // one continues
			first, at = 101, began.Add(151*time.Second)
		}
		report(0, first, at)
		report(1, taken, moved)
		report(2, taken, moved)
		f := c.View(now).Jobs[0].Finding
		if stuck := f != nil && f.State == census.Stuck; stuck != (second >= 161) {
			t.Fatalf("second %d: %+v", second, f)
		}
	}
}
