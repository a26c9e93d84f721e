package loader_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// trainer is a job whose clients report consumption, as the Python client does. Its ranks take steps when the test
// calls take.
type trainer struct {
	*testing.T
	ranks []*trainee
	// since is when the fault began; first is when each sentence was first shown, in seconds after since.
	since time.Time
	first map[string]int
	order []string
}

// trainee is one rank: its stream fills a buffer, and the trainer takes steps from it.
type trainee struct {
	run     *loader.Run
	place   state.RankID
	sent    atomic.Uint64
	taken   uint64
	waiting bool
	moved   time.Time
	hung    bool // its process is stopped
	end     context.CancelFunc
	done    chan struct{}
}

func newTrainer(t *testing.T) *trainer { return &trainer{T: t, first: map[string]int{}} }

// figures matches numbers that change every second.
var figures = regexp.MustCompile(`\d+ (s|min|tokens/s|steps behind)\b`)

// join opens the stream of a rank at a daemon.
func (x *trainer) join(run *loader.Run, job string, rank, world int) *trainee {
	x.Helper()
	defer time.Sleep(time.Second) // the first steps are sent meanwhile
	r := &trainee{run: run, place: state.RankID{Job: job, Rank: rank, World: world}, moved: time.Now(),
		done: make(chan struct{})}
	reader, err := run.JoinAs(x.Context(), r.place, 0, state.Client{Session: fmt.Sprint(job, rank),
		Address: fmt.Sprintf("10.0.0.%d:4000", rank)})
	if err != nil {
		x.Fatal(err)
	}
	var ctx context.Context
	ctx, r.end = context.WithCancel(x.Context())
	go func() {
		defer close(r.done)
		defer reader.Close()
		for reader.AwaitRoom(ctx) == nil {
			s, err := reader.Next(ctx)
			if err != nil {
				return
			}
			r.sent.Store(s.Index + 1)
		}
	}()
	x.ranks = append(x.ranks, r)
	return r
}

// take takes the rank's next step if it was sent; otherwise the rank waits for it.
func (r *trainee) take() {
	if r.hung {
		return
	}
	if r.waiting = r.taken == r.sent.Load(); !r.waiting {
		r.taken++
		r.moved = time.Now()
	}
}

// kill ends the process of a rank.
func (r *trainee) kill() {
	r.hung = true
	r.end()
	<-r.done
}

func (x *trainer) stop() {
	for _, r := range x.ranks {
		r.kill()
	}
}

// second waits one second, sends the clients' reports, and records the verdict of a run.
func (x *trainer) second(shows *loader.Run) {
	time.Sleep(time.Second)
	for _, r := range x.ranks {
		if !r.hung {
			r.run.RecordConsumption(r.place, state.Consumption{Session: fmt.Sprint(r.place.Job, r.place.Rank),
				Delivered: r.taken,
				Waiting:   r.waiting, SinceChange: time.Since(r.moved)})
		}
	}
	if v := shows.Verdict(); !x.since.IsZero() {
		shown := figures.ReplaceAllString(fmt.Sprintf("%s: %s; %s", v.Health, v.Sentence, v.Advice), "N $1")
		if _, known := x.first[shown]; !known {
			x.first[shown] = int(time.Since(x.since).Seconds())
			x.order = append(x.order, shown)
		}
	}
}

func (x *trainer) seconds(shows *loader.Run, n int) {
	for range n {
		x.second(shows)
	}
}

// train takes one step per second on all ranks.
func (x *trainer) train(shows *loader.Run, steps int) {
	for range steps {
		for _, r := range x.ranks {
			r.take()
		}
		x.second(shows)
	}
	x.since = time.Now()
}

// blames checks that a sentence with culprit was shown within 15 seconds, and that no sentence names an innocent
// part.
func (x *trainer) blames(culprit string, innocent ...string) {
	x.Helper()
	named := slices.IndexFunc(x.order, func(s string) bool { return strings.Contains(s, culprit) })
	if named < 0 || x.first[x.order[named]] > 15 {
		x.Errorf("%q was not shown within 15 s", culprit)
	}
	for _, shown := range x.order {
		for _, name := range append(innocent, "documents", "tokenizer", "publish") {
			if strings.Contains(shown, name) {
				x.Errorf("after %d s: %q names %q", x.first[shown], shown, name)
			}
		}
	}
	if x.Failed() {
		for _, shown := range x.order {
			x.Logf("%4d s %s", x.first[shown], shown)
		}
	}
}

func TestVerdict_HungRank(t *testing.T) {
	var log strings.Builder
	verdictRun(t, "lock step", func(w *fixture) {
		documents(4000)(w)
		w.edges = func(e *backend.Backends) { e.Log = slog.New(slog.NewTextHandler(&log, nil)) }
	}, func(j verdictTest) {
		x := newTrainer(j.T)
		defer x.stop()
		for rank := range 4 {
			x.join(j.run, "pretrain", rank, 4)
		}
		x.train(j.run, 35)
		x.ranks[3].hung = true // while it computes step 34
		for _, r := range x.ranks[:3] {
			r.take()
		}
		x.seconds(j.run, 180)
		x.blames(`failing: Rank 3 of 4 of job "pretrain" has not consumed step 34 for N s`, "ank 0", "ank 1 ", "ank 2")
		got := j.run.RecordConsumption(x.ranks[0].place, state.Consumption{Session: "pretrain0", Delivered: 36})
		if a := got.Alert; a == nil || a.Reason != fault.RankMissing || a.Facts["rank"] != "3" ||
			a.Facts["state"] != "silent" {
			j.Errorf("the other ranks get the alert %+v", a)
		}
		x.ranks[3].hung = false // SIGCONT
		x.ranks[3].take()
		x.train(j.run, 6)
		if v := j.run.Verdict(); v.Health != diagnosis.Running {
			j.Errorf("it is back: %+v", v)
		}
	})
	for _, event := range []string{"event=rank.missing", "event=rank.resolved"} {
		if strings.Count(log.String(), event) != 1 {
			t.Errorf("the log has %s, want %s once", log.String(), event)
		}
	}
}

func TestVerdict_KilledRank(t *testing.T) {
	verdictRun(t, "lock step", documents(400), func(j verdictTest) { // all steps are planned
		x := newTrainer(j.T)
		defer x.stop()
		x.join(j.run, "ddp", 0, 2)
		x.join(j.run, "ddp", 1, 2)
		x.train(j.run, 20)
		x.ranks[1].kill()
		x.seconds(j.run, 180)
		x.blames(`failing: Rank 1 of 2 of job "ddp" has not consumed step 19 for N s`, "ank 0")
	})
}

func TestVerdict_RankNeverConnected(t *testing.T) {
	verdictRun(t, "in the first collective", documents(4000), func(j verdictTest) {
		x := newTrainer(j.T)
		defer x.stop()
		for rank := range 3 {
			x.join(j.run, "pretrain", rank, 4)
		}
		x.seconds(j.run, 3)
		x.since = time.Now()
		for _, r := range x.ranks {
			r.take()
		}
		x.seconds(j.run, 60)
		x.blames(`Rank 3 of 4 of job "pretrain" has not connected`, "ank 0", "ank 1", "ank 2")
	})
}

func TestVerdict_SlowRank(t *testing.T) {
	verdictRun(t, "full buffers", documents(8000), func(j verdictTest) {
		x := newTrainer(j.T)
		defer x.stop()
		for rank := range 4 {
			x.join(j.run, "sft", rank, 4)
		}
		x.second(j.run)
		x.since = time.Now()
		for range 50 {
			for _, r := range x.ranks[:3] {
				for range 8 {
					r.take()
				}
			}
			x.ranks[3].take()
			x.second(j.run)
		}
		x.blames(`rank 3 of 4 of job "sft" is N steps behind`, "ank 0", "ank 1", "ank 2")
		v := j.run.Ranks().Jobs[0]
		if v.MinConsumed > 50 || v.MaxConsumed < v.MinConsumed+8 || v.Ranks[3].Sent > v.Ranks[3].Delivered+8 {
			j.Errorf("%+v", v)
		}
	})
}

func TestVerdict_OneOfTwoJobsIsStuck(t *testing.T) {
	verdictRun(t, "two jobs", documents(8000), func(j verdictTest) {
		x, eval := newTrainer(j.T), newTrainer(j.T)
		defer x.stop()
		defer eval.stop()
		x.join(j.run, "pretrain", 0, 2)
		x.join(j.run, "pretrain", 1, 2)
		x.join(j.run, "eval", 0, 1)
		x.train(j.run, 20)
		x.ranks[1].hung = true
		x.ranks[0].take()
		for range 60 {
			x.ranks[2].take()
			x.second(j.run)
		}
		x.blames(`failing: Rank 1 of 2 of job "pretrain" has not consumed step 19`, "eval", "ank 0")
		if x.ranks[2].taken != 80 {
			j.Errorf("the other job has taken %d steps", x.ranks[2].taken)
		}
	})
}

func TestVerdict_SealedRunWithLaggingTrainer(t *testing.T) {
	verdictRun(t, "sealed", documents(80), func(j verdictTest) {
		x := newTrainer(j.T)
		defer x.stop()
		r := x.join(j.run, "trainer", 0, 1)
		if _, err := j.run.Seal(j.Context()); err != nil {
			j.Fatal(err)
		}
		for range 12 {
			r.take()
			x.second(j.run)
		}
		x.seconds(j.run, 2)
		j.expect(diagnosis.Running, `All 20 steps are planned: rank 0 of 1 of job "trainer" has consumed 11 (20 sent)`,
			diagnosis.LimitRanks)
		for range 9 {
			r.take()
			x.second(j.run)
		}
		r.waiting = true
		x.seconds(j.run, 2)
		j.expect(diagnosis.Running, "Ended at step 20", "")
	})
}

// Evaluations and slow checkpoints are not reported as faults.
func TestVerdict_PausesAreNoFaults(t *testing.T) {
	verdictRun(t, "rank 0 evaluates, all write a checkpoint", documents(4000), func(j verdictTest) {
		x := newTrainer(j.T)
		defer x.stop()
		for rank := range 2 {
			x.join(j.run, "pretrain", rank, 2)
		}
		x.train(j.run, 20)
		x.ranks[1].take()
		x.seconds(j.run, 90)
		x.ranks[0].take()
		x.seconds(j.run, 90)
		for _, shown := range x.order {
			if strings.HasPrefix(shown, "failing") {
				j.Errorf("after %d s: %s", x.first[shown], shown)
			}
		}
	})
}

// Three daemons serve a job. A rank is killed, and then the daemon that served it. The remaining daemons name the
// rank.
func TestDaemons_RankLostOnOneOfThree(t *testing.T) {
	bubble(t, "a rank and its daemon", func(t *testing.T) {
		w, c := newFixture(config("concat")), newTestCluster()
		documents(4000)(w)
		x := newTrainer(t)
		var runs []*loader.Run
		var stops []func() error
		for rank, name := range []string{"a", "b", "c"} {
			run, stop := w.join(t, c, name)
			runs, stops = append(runs, run), append(stops, stop)
			time.Sleep(time.Second)
			x.join(run, "pretrain", rank, 4)
		}
		x.join(runs[2], "pretrain", 3, 4)
		defer x.stop()
		x.train(runs[2], 20)
		for n, v := range []diagnosis.Verdict{runs[0].Verdict(), runs[1].Verdict(), runs[2].Verdict()} {
			if jobs := runs[n].Ranks().Jobs; v.Health != diagnosis.Running || len(jobs) != 1 || jobs[0].Present != 4 ||
				jobs[0].Finding != nil {
				t.Fatalf("daemon %d before the fault: %+v, %+v", n, v, jobs)
			}
		}
		x.ranks[1].kill()
		x.seconds(runs[2], 5)
		if err := stops[1](); err != nil {
			t.Fatal(err)
		}
		x.seconds(runs[2], 20)
		x.blames(`failing: Rank 1 of 4 of job "pretrain" has not consumed step`, "ank 0", "ank 2", "ank 3")
		if v := runs[0].Verdict(); v.Reason != fault.RankMissing {
			t.Errorf("%+v", v)
		}
	})
}

// A client may report to another daemon than the one that serves it.
func TestDaemons_ReportsReachTheServingDaemon(t *testing.T) {
	bubble(t, "a report elsewhere", func(t *testing.T) {
		w, c := newFixture(config("concat")), newTestCluster()
		documents(4000)(w)
		a, _ := w.join(t, c, "a")
		b, _ := w.join(t, c, "b")
		time.Sleep(time.Second)
		x := newTrainer(t)
		defer x.stop()
		r := x.join(a, "pretrain", 0, 1)
		x.seconds(b, 3)
		r.run = b
		for range 5 {
			for range 4 {
				r.take()
			}
			x.seconds(b, 4)
		}
		if sent := r.sent.Load(); r.taken != 20 || sent != 28 {
			t.Errorf("%d taken, %d sent", r.taken, sent)
		}
		if got := b.RecordConsumption(state.RankID{Job: "pretrain", Rank: 0, World: 9},
			state.Consumption{Session: "s"}); got.Known {
			t.Error("a rank without a stream is known")
		}
	})
}

func TestRankCause_CountsRanks(t *testing.T) {
	for _, x := range []struct {
		state census.State
		ranks []int
		want  string
	}{
		{census.Absent, []int{3}, `Rank 3 of 4 of job "a" has not consumed step 7 for 20 s: it is not connected`},
		{census.Absent, []int{1, 3}, `Ranks 1, 3 of 4 of job "a" have not consumed step 7 for 20 s: they are not connected`},
		{census.Silent, []int{1, 3},
			`Ranks 1, 3 of 4 of job "a" have not consumed step 7 for 20 s: their processes do not answer`},
		{census.Left, []int{3}, `Rank 3 of 4 of job "a" has not consumed step 7 for 20 s: ` +
			"its client was closed, and other ranks have asked for a later step"},
	} {
		f := census.Finding{Key: census.Key{Job: "a", World: 4}, State: x.state, Level: census.Critical, Ranks: x.ranks,
			Count: len(x.ranks), Step: 7, Age: 20 * time.Second}
		if got := diagnosis.RankCause(&f).Message; got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
