package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// sizes returns the world size of the job "trainer".
func sizes(step uint64, ranks int) planrecord.WorldSizes {
	return planrecord.WorldSizes{"trainer": {Step: step, Ranks: ranks}}
}

// reader returns a reader of a rank that has read some steps from a step on.
func reader(t *testing.T, run *loader.Run, rank, world int, step, n uint64) *follower.Reader {
	t.Helper()
	r, err := run.JoinAs(t.Context(), state.RankID{Rank: rank, World: world}, step,
		state.Client{Session: fmt.Sprint(rank, world)})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// report reports the progress of the clients of some ranks once per second, until the returned function is called.
func report(t *testing.T, run *loader.Run, world int, ranks ...int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	tick := time.NewTicker(time.Second)
	var reporting sync.WaitGroup
	reporting.Go(func() {
		for ctx.Err() == nil {
			for _, rank := range ranks {
				run.RecordConsumption(state.RankID{Rank: rank, World: world}, state.Consumption{Session: fmt.Sprint(rank, world)})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		tick.Stop()
		cancel()
		reporting.Wait()
	}
}

// resize requests a world size for the ranks in turn. The last one completes the agreement.
func resize(t *testing.T, runs []*loader.Run, world int, step uint64) {
	t.Helper()
	for rank := range world {
		result, err := runs[rank%len(runs)].Resize(t.Context(), state.ResizeRequest{Session: fmt.Sprint(rank, world),
			RankID: state.RankID{Rank: rank, World: world}, Step: step})
		if err != nil || result.Agreed != (rank == world-1) || result.MissingCount != world-1-rank {
			t.Fatalf("rank %d: %+v, %v", rank, result, err)
		}
	}
}

// TestResize_OnTwoDaemons changes the world size of a job from 4 to 2 while one rank takes no part.
func TestResize_OnTwoDaemons(t *testing.T) {
	bubble(t, "4 to 2", func(t *testing.T) {
		w, c := newFixture(config("concat")), newTestCluster()
		documents(400)(w)
		a, _ := w.join(t, c, "a")
		time.Sleep(time.Second)
		b, stop := w.join(t, c, "b")
		time.Sleep(time.Second)
		runs := []*loader.Run{a, b}
		var old []*follower.Reader
		for rank := range 4 {
			old = append(old, reader(t, runs[rank%2], rank, 4, 0, 3))
		}
		old[0].Close()
		old[1].Close()
		old[3].Close()
		resize(t, runs, 2, 3)
		for rank := range 2 {
			defer reader(t, runs[rank], rank, 2, 3, 2).Close()
			defer report(t, runs[rank], 2, rank)()
		}
		time.Sleep(4 * time.Second) // each daemon reports its ranks once per second
		for _, run := range runs {
			if got := run.Info().WorldSizes; !maps.Equal(got, sizes(3, 2)) {
				t.Errorf("world sizes %v", got)
			}
			if jobs := run.Ranks().Jobs; len(jobs) != 1 || jobs[0].World != 2 || jobs[0].Present != 2 {
				t.Errorf("jobs %+v", jobs)
			}
		}
		want := `rank 2 of 4 of job "trainer" cannot read step 3: the job has 2 ranks from step 3`
		select {
		case err := <-old[2].Dropped():
			if reason(err) != fault.WorldConflict || !strings.Contains(err.Error(), want) {
				t.Errorf("the reader that took no part: %v", err)
			}
		default:
			t.Error("the reader that took no part is still open")
		}
		if _, err := old[2].Next(t.Context()); reason(err) != fault.WorldConflict {
			t.Errorf("its next step: %v", err)
		}
		for _, run := range runs {
			if _, err := run.Join(state.RankID{Rank: 2, World: 4}, 3); reason(err) != fault.WorldConflict {
				t.Errorf("a reader with the former world size: %v", err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestResize_IsPending requests a world size for one of two ranks. Every daemon reports it until the request expires.
func TestResize_IsPending(t *testing.T) {
	bubble(t, "1 of 2", func(t *testing.T) {
		w, c := newFixture(config("concat")), newTestCluster()
		documents(400)(w)
		a, _ := w.join(t, c, "a")
		time.Sleep(time.Second)
		b, stop := w.join(t, c, "b")
		time.Sleep(time.Second)
		began := time.Now()
		q := state.ResizeRequest{RankID: state.RankID{Rank: 1, World: 2}, Step: 3}
		if _, err := b.Resize(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for _, run := range []*loader.Run{a, b} {
			got := run.Stats().Resizes
			if len(got) != 1 || got[0].Job != "trainer" || got[0].World != 2 || got[0].Step != 3 ||
				got[0].Since.Sub(began) > time.Second || !slices.Equal(got[0].Joined, []int{1}) ||
				!slices.Equal(got[0].Missing, []int{0}) {
				t.Errorf("pending %+v", got)
			}
		}
		time.Sleep(5 * time.Second)
		for _, run := range []*loader.Run{a, b} {
			if got := run.Stats().Resizes; len(got) > 0 {
				t.Errorf("pending after the request has expired: %+v", got)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestResize_RestartedJob stops a whole job after a change, and starts it with another world size. The recorded one
// survives a restart of the daemon, with a checkpoint and without.
func TestResize_RestartedJob(t *testing.T) {
	for name, checkpoint := range map[string]bool{"checkpoint": true, "replay": false} {
		bubble(t, name, func(t *testing.T) {
			w := newFixture(config("concat"))
			if !checkpoint {
				w.options.CheckpointSteps = 1 << 20
			}
			documents(400)(w)
			run, stop := w.start(t)
			first := reader(t, run, 0, 1, 0, 5)
			first.Close()
			resize(t, []*loader.Run{run}, 2, 4)
			began := time.Now()
			again := reader(t, run, 0, 4, 2, 1)
			if waited := time.Since(began); waited < 4*time.Second || waited > 6*time.Second {
				t.Errorf("it waited %s for readers with the world size that was just agreed on", waited)
			}
			again.Close()
			if got := run.Info().WorldSizes; !maps.Equal(got, sizes(2, 4)) {
				t.Errorf("world sizes %v", got)
			}
			reader(t, run, 0, 4, 3, 9).Close()
			if checkpoint {
				if _, err := run.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			run, stop = w.start(t)
			reader(t, run, 1, 4, 3, 1).Close()
			if got := run.Info().WorldSizes; !maps.Equal(got, sizes(2, 4)) {
				t.Errorf("world sizes after the restart %v", got)
			}
			if _, err := run.Commit(t.Context(), "trainer", 1); err != nil {
				t.Error(err)
			}
			if _, err := run.Leave(t.Context(), "trainer"); err != nil || len(run.Info().WorldSizes) > 0 {
				t.Errorf("world sizes of a job that left: %v, %v", run.Info().WorldSizes, err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestResize_RestartAfterLossOfMachine restarts a job of 4 ranks on two daemons with 2 ranks, while the streams of two
// lost ranks are still open. It waits until their clients have not reported for 5 s, and then reads. A lost rank that
// returns gets an error. While one of the ranks reports, the job is not lost.
func TestResize_RestartAfterLossOfMachine(t *testing.T) {
	for name, c := range map[string]struct {
		at       int           // daemon of the restart; the first one leads
		lost     time.Duration // since the last report, at the restart
		reports  bool          // one of the clients, to the other daemon
		min, max time.Duration // of the wait
	}{
		"at once":       {0, 0, false, 4 * time.Second, 6500 * time.Millisecond}, // reports arrive with rolls
		"later":         {0, 8 * time.Second, false, 0, 100 * time.Millisecond},
		"at a follower": {1, 8 * time.Second, false, 0, 500 * time.Millisecond},
		"reporting":     {0, 8 * time.Second, true, 3 * time.Second, 4 * time.Second},
	} {
		bubble(t, name, func(t *testing.T) {
			log := &lines{words: "restarted job waits"}
			w, cluster := newFixture(config("concat")), newTestCluster()
			w.edges = func(e *backend.Backends) { e.Log = slog.New(log) }
			documents(400)(w)
			a, _ := w.join(t, cluster, "a")
			time.Sleep(time.Second)
			b, stop := w.join(t, cluster, "b")
			time.Sleep(time.Second)
			runs := []*loader.Run{a, b}
			resize(t, runs, 4, 0)
			var old []*follower.Reader
			for rank := range 4 {
				old = append(old, reader(t, runs[rank/2], rank, 4, 0, 1))
			}
			alive := report(t, b, 4, 0, 1, 2, 3)
			time.Sleep(3 * time.Second)
			alive()
			if c.reports {
				defer report(t, a, 4, 3)()
			}
			old[0].Close()
			old[1].Close()
			time.Sleep(c.lost)

			began := time.Now()
			r, err := runs[c.at].JoinAs(t.Context(), state.RankID{World: 2}, 1, state.Client{Session: fmt.Sprint(0, 2)})
			if waited := time.Since(began); waited < c.min || waited > c.max {
				t.Errorf("waited %s", waited)
			}
			if c.reports {
				want := "the job has 4 ranks from step 0, with open streams of ranks 2, 3, the first at daemon b"
				if reason(err) != fault.WorldConflict || !strings.Contains(err.Error(), want) {
					t.Errorf("the job reports: %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				defer r.Close()
				defer report(t, runs[c.at], 2, 0)()
				if _, err := r.Next(t.Context()); err != nil {
					t.Errorf("the first step: %v", err)
				}
				time.Sleep(3 * time.Second)
				for _, r := range old[2:] {
					if _, err := r.Next(t.Context()); reason(err) != fault.WorldConflict {
						t.Errorf("a lost rank that returns: %v", err)
					}
				}
				if _, err := b.Join(state.RankID{Rank: 3, World: 4}, 1); reason(err) != fault.WorldConflict {
					t.Errorf("a lost rank that opens another stream: %v", err)
				}
				if got := a.Info().WorldSizes; !maps.Equal(got, sizes(1, 2)) {
					t.Errorf("world sizes %v", got)
				}
			}
			want := "restarted job waits for silent streams of its former world size job=trainer ranks=2 former_ranks=4 " +
				"open=ranks 2, 3, the first at daemon b at_most="
			if got := log.take(); (len(got) == 1) != (name == "at once") || len(got) > 0 && !strings.HasPrefix(got[0], want) {
				t.Errorf("logged %q", got)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestResize_UnrelatedReaderOfTheJob lets a reader without a job read as the stopped trainer, whose restart is refused
// while that reader is connected. The error has its address.
func TestResize_UnrelatedReaderOfTheJob(t *testing.T) {
	bubble(t, "notebook", func(t *testing.T) {
		w := newFixture(config("concat"))
		documents(400)(w)
		run, stop := w.start(t)
		resize(t, []*loader.Run{run}, 4, 0)
		reader(t, run, 0, 4, 0, 3).Close()
		time.Sleep(time.Minute)
		notebook, err := run.JoinAs(t.Context(), state.RankID{World: 1}, 0, state.Client{Session: fmt.Sprint(0, 1),
			Address: "10.0.0.7:4000"})
		if err != nil {
			t.Fatal(err)
		}
		quit := report(t, run, 1, 0)
		_, err = run.Join(state.RankID{Rank: 1, World: 4}, 3)
		for _, want := range []string{
			"the job has 1 ranks from step 0, with open streams of rank 0, the first at 10.0.0.7:4000",
			"or give an unrelated reader another job"} {
			if reason(err) != fault.WorldConflict || !strings.Contains(err.Error(), want) {
				t.Errorf("the restart: %v, want %q", err, want)
			}
		}
		notebook.Close()
		quit()
		reader(t, run, 1, 4, 3, 1).Close()
		if got := run.Info().WorldSizes; !maps.Equal(got, sizes(3, 4)) {
			t.Errorf("world sizes %v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestResize_RestartedDaemon restarts the daemon after an agreement whose answer one of two ranks has not received.
// This rank gets it from the new leader, and a process with another world size cannot take over the job before they
// have opened their streams.
func TestResize_RestartedDaemon(t *testing.T) {
	bubble(t, "1 to 2", func(t *testing.T) {
		w := newFixture(config("concat"))
		documents(400)(w)
		run, stop := w.start(t)
		reader(t, run, 0, 1, 0, 5).Close()
		resize(t, []*loader.Run{run}, 2, 4)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		run, stop = w.start(t)
		result, err := run.Resize(t.Context(), state.ResizeRequest{Session: fmt.Sprint(1, 2),
			RankID: state.RankID{Rank: 1, World: 2}, Step: 4})
		if err != nil || !result.Agreed {
			t.Errorf("the repeated request: %+v, %v", result, err)
		}
		opened := make(chan *follower.Reader)
		go func() {
			time.Sleep(3 * time.Second)
			r, err := run.Join(state.RankID{Rank: 0, World: 2}, 4)
			if err != nil {
				t.Error(err)
			}
			opened <- r
		}()
		if _, err := run.Join(state.RankID{Rank: 2, World: 4}, 4); reason(err) != fault.WorldConflict {
			t.Errorf("a reader with the former world size: %v", err)
		}
		if r := <-opened; r != nil {
			r.Close()
		}
		if got := run.Info().WorldSizes; !maps.Equal(got, sizes(4, 2)) {
			t.Errorf("world sizes %v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestResize_RestartWithInvalidWorldSize starts a stopped job again with a world size that does not divide the rows.
func TestResize_RestartWithInvalidWorldSize(t *testing.T) {
	w := newFixture(config("concat"))
	documents(400)(w)
	run, _ := w.start(t)
	resize(t, []*loader.Run{run}, 2, 0)
	for _, place := range []state.RankID{{Rank: 0, World: 3}, {Rank: 2, World: 2}, {Rank: 0, World: 0}} {
		if _, err := run.Join(place, 0); reason(err) != fault.WorldMismatch && reason(err) != fault.InvalidTicket {
			t.Errorf("%+v: %v", place, err)
		}
	}
	if got := run.Info().WorldSizes; !maps.Equal(got, sizes(0, 2)) {
		t.Errorf("world sizes %v", got)
	}
}

func TestResize_InvalidRequests(t *testing.T) {
	w := newFixture(config("concat"))
	documents(400)(w)
	run, _ := w.start(t)
	reader(t, run, 0, 1, 0, 1).Close()
	at := func(rank, world int) state.RankID { return state.RankID{Rank: rank, World: world} }
	for name, c := range map[string]struct {
		q      state.ResizeRequest
		reason fault.Reason
		want   string
	}{
		"rows":  {state.ResizeRequest{RankID: at(0, 3)}, fault.WorldMismatch, "use one of these world sizes: 1 2 4"},
		"rank":  {state.ResizeRequest{RankID: at(2, 2)}, fault.InvalidTicket, "rank 2 of world 2"},
		"world": {state.ResizeRequest{RankID: at(0, 0), Restart: true}, fault.InvalidTicket, "rank 0 of world 0"},
		"job": {state.ResizeRequest{RankID: state.RankID{Job: "é", World: 1}}, fault.InvalidTicket,
			"printable ASCII"},
		"step": {state.ResizeRequest{RankID: at(0, 1), Step: 1 << 40}, fault.InvalidTicket,
			"cannot have 1 ranks from step 1099511627776: the plan has"},
	} {
		result, err := run.Resize(t.Context(), c.q)
		var typed *fault.Error
		if !errors.As(err, &typed) || typed.Reason != c.reason || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	if got := run.Info().WorldSizes; got != nil {
		t.Errorf("world sizes %v", got)
	}
}

// TestResize_MissingRankIsOfTheNewWorldSize lets ranks of a job be lost, changes its world size, and loses one more.
func TestResize_MissingRankIsOfTheNewWorldSize(t *testing.T) {
	bubble(t, "4 to 2", func(t *testing.T) {
		w := newFixture(config("concat"))
		documents(4000)(w)
		run, stop := w.start(t)
		x := newTrainer(t)
		defer x.stop()
		for rank := range 4 {
			x.join(run, "trainer", rank, 4)
		}
		x.train(run, 10)
		for _, r := range x.ranks {
			r.kill()
		}
		resize(t, []*loader.Run{run}, 2, 10)
		for rank := range 2 {
			x.join(run, "trainer", rank, 2)
		}
		x.train(run, 10)
		if v := run.Verdict(); v.Health != diagnosis.Running || len(run.Ranks().Jobs) != 1 {
			t.Errorf("%+v, %+v", v, run.Ranks())
		}
		x.ranks[len(x.ranks)-1].kill()
		x.seconds(run, 30)
		x.blames(`failing: Rank 1 of 2 of job "trainer" has not consumed step`, "ank 0", "of 4")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestCensus_FormerWorldSizeIsOmitted(t *testing.T) {
	now, c := time.Now(), census.New()
	id := func(job string, world int) census.ProcessID {
		return census.ProcessID{Key: census.Key{Job: job, World: world}}
	}
	for _, job := range []string{"a", "b", "open"} {
		for _, world := range []int{2, 4} {
			c.Open(id(job, world), census.Client{Session: "s"}, 0, now)
			if world == 4 && job != "open" {
				c.Close(id(job, world), false, now)
			}
		}
	}
	v := c.View(now).WithoutFormer(func(job string) int { return map[string]int{"a": 2, "open": 2}[job] })
	var got []census.Key
	for _, j := range v.Jobs {
		got = append(got, j.Key)
	}
	want := []census.Key{{Job: "a", World: 2}, {Job: "b", World: 2}, {Job: "b", World: 4}, {Job: "open", World: 2},
		{Job: "open", World: 4}}
	if !slices.Equal(got, want) {
		t.Errorf("jobs %v, want %v", got, want)
	}
	if !c.HasStreams(id("a", 2).Key, now) || c.HasStreams(id("a", 4).Key, now) {
		t.Error("open streams")
	}
}

// TestJoinAs_EndsWithItsContext lets a reader wait for the streams of another world size, and cancels it.
func TestJoinAs_EndsWithItsContext(t *testing.T) {
	bubble(t, "cancelled", func(t *testing.T) {
		w := newFixture(config("concat"))
		documents(400)(w)
		run, stop := w.start(t)
		resize(t, []*loader.Run{run}, 2, 0)
		open := reader(t, run, 0, 2, 0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := run.JoinAs(ctx, state.RankID{World: 1}, 0, state.Client{}); !errors.Is(err, ctx.Err()) || err == nil {
			t.Errorf("a reader whose call has ended: %v", err)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it ended after %s", waited)
		}
		open.Close()
		if got := run.Info().WorldSizes; !maps.Equal(got, sizes(0, 2)) {
			t.Errorf("world sizes %v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
