package loader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// Several daemons serve the steps of one run whichever daemon leads, through many failovers. Each request to any of
// them is recorded.
func TestDaemons_ServeSameStepsThroughFailovers(t *testing.T) {
	for _, knows := range []leaseLoss{lossReported, lossSuspected, lossUnnoticed} {
		t.Run(string(knows), func(t *testing.T) {
			c := config("bfd")
			alone := newFixture(c)
			alone.docs.lengths(someLengths(5, 600)...)
			only, _ := alone.start(t)
			if _, err := only.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := read(t, only, state.RankID{World: 1}, 0, 0)

			w, cluster := newFixture(c), newTestCluster()
			w.options.CheckpointSteps, w.options.Ahead, w.options.StallTimeout = 5, 2, 20*time.Second
			w.docs.lengths(someLengths(5, 600)...)
			runs := make([]*loader.Run, 3)
			for i := range runs {
				runs[i], _ = w.join(t, cluster, fmt.Sprint("daemon", i))
			}
			eventually(t, func() bool { return len(runs[0].Info().Daemons) == 3 && len(runs[2].Info().Daemons) == 3 })
			if at, err := runs[2].Seal(t.Context()); err != nil || at != 600 {
				t.Fatalf("Seal = %d, %v", at, err)
			}
			got := make([][]*assembly.Batch, len(runs))
			var reading sync.WaitGroup
			for i, run := range runs {
				reading.Go(func() { got[i] = read(t, run, state.RankID{Job: fmt.Sprint(i), World: 1}, 0, 0) })
			}
			done := make(chan struct{})
			go func() { reading.Wait(); close(done) }()
			for n := uint64(1); ; n++ {
				select {
				case <-done:
				case <-time.After(20 * time.Millisecond):
					cluster.depose(knows)
					if at, err := runs[n%3].Commit(t.Context(), planrecord.DefaultJob,
						min(n, runs[n%3].Info().Planned)); err != nil {
						t.Errorf("Commit = %d, %v", at, err)
					}
					continue
				}
				break
			}
			for i, batches := range got {
				if len(batches) != len(want) {
					t.Fatalf("daemon %d gave %d steps, want %d", i, len(batches), len(want))
				}
				for k := range batches {
					if !slices.Equal(tokensOf(t, batches[k]), tokensOf(t, want[k])) {
						t.Fatalf("step %d of daemon %d differs", k, i)
					}
				}
			}
		})
	}
}

// A daemon that has never led serves the plan and its committing jobs, and its readers advance the plan.
func TestFollower_ServesPlanAndJobs(t *testing.T) {
	w, cluster := newFixture(config("concat")), newTestCluster()
	w.options.Ahead, w.options.StallTimeout = 2, 10*time.Second
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	first, stop := w.join(t, cluster, "first")
	eventually(t, func() bool { return first.Info().Planned > 0 })
	if _, err := first.Commit(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	second, _ := w.join(t, cluster, "second")
	if batches := read(t, second, state.RankID{World: 1}, 0, 20); len(batches) != 20 {
		t.Fatalf("%d steps", len(batches))
	}
	if have := second.Info().Commits; have["a"].Step != 1 {
		t.Errorf("the committing jobs are %v", have)
	}
	if _, err := second.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A reader far behind the plan's end, and one before it, are refused as by the leader.
	if _, err := second.Join(state.RankID{World: 1}, 1000); reason(err) != fault.StepNotPlanned {
		t.Errorf("Join = %v", err)
	}
	// After the leader has stopped, the second daemon leads and its readers continue.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if batches := read(t, second, state.RankID{World: 1}, 20, 10); len(batches) != 10 {
		t.Fatalf("%d steps", len(batches))
	}
}

// While no daemon leads, a waiting rank gets that cause.
func TestStall_WithoutLeaderHasCause(t *testing.T) {
	w, cluster := newFixture(config("concat")), newTestCluster()
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	if _, err := cluster.Acquire(t.Context()); err != nil { // a leader that never plans
		t.Fatal(err)
	}
	w.options.StallTimeout = 4 * time.Second
	run, _ := w.join(t, cluster, "second")
	r, err := run.Join(state.RankID{World: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(t.Context()); reason(err) != fault.NotLeading {
		t.Errorf("Next = %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := run.Commit(ctx, "a", 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Commit = %v", err)
	}
}

// lookedAt calls listed when the checkpoints are listed.
type lookedAt struct {
	*memCheckpoints
	listed func()
}

func (c lookedAt) List(ctx context.Context) ([]backend.CheckpointInfo, error) {
	c.listed()
	return c.memCheckpoints.List(ctx)
}

// A daemon that opens the plan learns what another daemon plans and stores meanwhile.
func TestOpen_ReadsPlanThatLeaderExtends(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		w, cluster := newFixture(config("concat")), newTestCluster()
		w.options.Ahead, w.options.CheckpointSteps = 2, 4
		w.docs.lengths(slices.Repeat([]int{16}, 100)...)
		first, _ := w.join(t, cluster, "first")
		read(t, first, state.RankID{World: 1}, 0, 1)
		w.edges = func(e *backend.Backends) {
			e.Checkpoints = lookedAt{w.checkpoints, sync.OnceFunc(func() {
				if sealed {
					if _, err := first.Seal(t.Context()); err != nil {
						t.Error(err)
					}
					read(t, first, state.RankID{World: 1}, 1, 0)
				} else {
					read(t, first, state.RankID{World: 1}, 1, 15)
				}
				eventually(t, func() bool {
					return first.Stats().Checkpoint == first.Info().Planned || !sealed && first.Stats().Checkpoint > 8
				})
			})}
		}
		second, _ := w.join(t, cluster, "second")
		have, want := second.Info(), first.Info()
		if have.Planned != want.Planned || have.Ended != sealed || want.Ended != sealed {
			t.Errorf("it knows %d steps, ended %v, of %d, ended %v", have.Planned, have.Ended, want.Planned, want.Ended)
		}
	}
}

// A request that changes nothing is answered only after the state it found is recorded, because of a possible
// failover.
func TestResponses_WaitForRecordedState(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 100)...)
	run, _ := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	release := w.plan.hold()
	answers := make(chan string, 4)
	ask := func(what string, f func() (uint64, error)) {
		go func() {
			if _, err := f(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			answers <- what
		}()
	}
	commit := func() (uint64, error) { return run.Commit(t.Context(), "a", 2) }
	seal := func() (uint64, error) { return run.Seal(t.Context()) }
	ask("the commit", commit)
	eventually(t, func() bool { return w.plan.held() == 1 })
	ask("the commit again", commit)
	ask("the seal", seal)
	ask("the seal again", seal)
	select {
	case what := <-answers:
		answers <- what
		t.Errorf("%s is answered, and nothing is recorded", what)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	for range 4 {
		<-answers
	}
}

// A daemon that has lost the lease and is in doubt answers no request from its own state. The next leader answers
// instead.
func TestLease_DaemonInDoubtAnswersNoRequest(t *testing.T) {
	w, cluster := newFixture(config("concat")), newTestCluster()
	w.options.Ahead, w.options.CheckpointSteps = 2, 1000
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	first, stop := w.join(t, cluster, "first")
	eventually(t, func() bool { return first.Info().Planned == 2 })
	second, _ := w.join(t, cluster, "second")
	cluster.setDeaf(true) // so that it does not receive readers' demand and notice the loss by an append
	cluster.depose(lossSuspected)
	read(t, second, state.RankID{World: 1}, 0, 20)
	if _, err := second.Commit(t.Context(), "a", 5); err != nil {
		t.Fatal(err)
	}
	if at, err := first.Commit(t.Context(), "b", 20); err != nil || at != 5 { // never planned by the first
		t.Errorf("Commit = %d, %v", at, err)
	}
	cluster.depose(lossSuspected)
	eventually(t, first.IsLeader)
	if at, err := second.Checkpoint(t.Context()); err != nil || at < 20 {
		t.Errorf("Checkpoint = %d, %v", at, err)
	}
	cluster.depose(lossSuspected)
	eventually(t, func() bool { terms, who := w.terms(); return len(terms) == 4 && who[3] == "second" })
	if err := stop(); err != nil { // stopping does not need the lease
		t.Error(err)
	}
}

// shortDocs delivers no documents from a sequence on.
type shortDocs struct {
	*memDocs
	before uint64
}

type shortSource struct {
	blockingSource
	before uint64
}

func (d shortDocs) Read(ctx context.Context, from uint64) (document.Source, error) {
	s, err := d.memDocs.open(from)
	if err != nil {
		return nil, err
	}
	return queued(shortSource{s, d.before}), nil
}

func (s shortSource) Next(ctx context.Context) ([]document.Document, error) {
	if s.Status().Fetched+1 >= s.before {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.blockingSource.Next(ctx)
}

// A daemon keeps its state of the plan while it replays the log.
func TestReplay_KeepsPlanState(t *testing.T) {
	w, cluster := newFixture(config("concat")), newTestCluster()
	w.options.Ahead, w.options.CheckpointSteps = 2, 0
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	first, stop := w.join(t, cluster, "first")
	read(t, first, state.RankID{World: 1}, 0, 5)
	if _, err := first.Commit(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	read(t, first, state.RankID{World: 1}, 5, 25)
	if _, err := first.Commit(t.Context(), "a", 29); err != nil {
		t.Fatal(err)
	}
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: shortDocs{w.docs, 60}} }
	second, _ := w.join(t, cluster, "second")
	eventually(t, func() bool { return second.Info().Committed == 29 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it starts a new replay after it loses the lease
		eventually(t, func() bool { s := second.Stats(); return s.Replaying && s.Cursor > 40 })
		if have := second.Info(); have.Committed != 29 || have.Planned < 30 {
			t.Errorf("%d steps are committed, %d planned", have.Committed, have.Planned)
		}
		cluster.depose(lossReported)
	}
}
