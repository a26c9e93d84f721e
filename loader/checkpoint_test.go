package loader_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// heldCheckpoints blocks every Put until the test releases it or its context ends.
type heldCheckpoints struct {
	*memCheckpoints
	began   chan struct{} // receives one value per Put
	through chan struct{}
}

func (c heldCheckpoints) Put(ctx context.Context, term, step uint64, data []byte) ([]backend.CheckpointInfo, error) {
	c.began <- struct{}{}
	select {
	case <-c.through:
		return c.memCheckpoints.Put(ctx, term, step, data)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *fixture) holdCheckpoints() heldCheckpoints {
	c := heldCheckpoints{w.checkpoints, make(chan struct{}, 100), make(chan struct{})}
	w.edges = func(e *backend.Backends) { e.Checkpoints = c }
	return c
}

// A commit that is being appended while a later checkpoint is taken survives a restart.
func TestCheckpoint_CoversPendingCommits(t *testing.T) {
	w := newFixture(config("concat"))
	w.options.CheckpointSteps = 1
	w.docs.lengths(slices.Repeat([]int{16}, 100)...)
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	release := w.plan.hold()
	committed := make(chan error, 1)
	go func() {
		_, err := run.Commit(t.Context(), planrecord.DefaultJob, 2)
		committed <- err
	}()
	eventually(t, func() bool { return w.plan.held() == 1 })
	r, err := run.Join(state.RankID{World: 1}, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	read := make(chan error, 1)
	go func() { _, err := r.Next(t.Context()); read <- err }()
	// the loop has planned 9 steps and taken a checkpoint after each
	eventually(t, func() bool { return run.Stats().Rows >= 36 })
	release()
	for _, c := range []chan error{committed, read} {
		if err := <-c; err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return run.Stats().Checkpoint == 9 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	run, _ = w.start(t)
	eventually(t, func() bool { return !run.Stats().Replaying })
	if c := run.Info().Committed; c != 2 {
		t.Fatalf("committed is %d after the restart, want 2", c)
	}
}

// Checkpoint returns the step that the checkpoint covers, whatever was planned while it was stored.
func TestCheckpoint_ReturnsCoveredStep(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 100)...)
	c := w.holdCheckpoints()
	w.options.CheckpointSteps = 5
	run, _ := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	asked := make(chan error, 1)
	go func() {
		step, err := run.Checkpoint(t.Context())
		if err == nil && step != 4 {
			err = fmt.Errorf("it says step %d, want 4", step)
		}
		asked <- err
	}()
	<-c.began
	r, err := run.Join(state.RankID{World: 1}, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() { _, err := r.Next(ctx); read <- err }()
	eventually(t, func() bool { return run.Stats().Rows == 40 }) // the loop decides on the next checkpoint
	cancel()
	<-read
	close(c.through)
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
}

// While a slow checkpoint is stored, steps and controls continue, and no other checkpoint starts. A request for a
// checkpoint waits for the next one, and a stop stores the last one.
func TestCheckpoint_SlowStoreDoesNotBlockSteps(t *testing.T) {
	w := newFixture(config("concat"))
	w.options.CheckpointSteps, w.options.StallTimeout = 4, 2*time.Minute
	w.docs.lengths(slices.Repeat([]int{16}, 100)...)
	c := w.holdCheckpoints()
	run, stop := w.start(t)
	began := time.Now()
	read(t, run, state.RankID{World: 1}, 0, 14)
	if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 9); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("14 steps took %s beside a checkpoint that is not stored", took)
	}
	// the first one is being stored during all of this
	eventually(t, func() bool { return run.Info().Planned == 18 && len(c.began) > 0 })
	if n := len(c.began); n != 1 {
		t.Errorf("%d checkpoints are on their way", n)
	}
	asked := make(chan uint64, 2)
	for range 2 {
		go func() {
			step, err := run.Checkpoint(t.Context())
			if err != nil {
				t.Error(err)
			}
			asked <- step
		}()
	}
	c.through <- struct{}{} // the first is stored, and the requests get a checkpoint of the current step
	eventually(t, func() bool { return len(c.began) >= 2 })
	close(c.through)
	for range 2 {
		if step := <-asked; step != 18 {
			t.Errorf("the checkpoint is of step %d, want 18", step)
		}
	}
	read(t, run, state.RankID{World: 1}, 14, 3)
	eventually(t, func() bool { return run.Info().Planned == 21 }) // a stop in the middle of a step takes no checkpoint
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	names := w.checkpoints.names()
	if last := fmt.Sprintf("step-%020d", run.Info().Planned); len(names) == 0 || names[len(names)-1] != last {
		t.Errorf("stored are %v, want %s as the last", names, last)
	}
}

// A graceful stop waits until the checkpoint that is being stored is complete.
func TestStop_WaitsForPendingCheckpoint(t *testing.T) {
	w := newFixture(config("concat"))
	w.options.CheckpointSteps = 4
	w.docs.lengths(slices.Repeat([]int{16}, 22)...) // 4 steps and no further documents
	c := w.holdCheckpoints()
	run, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- run.Serve(ctx) }()
	<-c.began
	cancel()
	close(c.through)
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if names := w.checkpoints.names(); len(names) != 1 {
		t.Fatalf("stored %v", names)
	}
}

// checkpointedEarly returns a stopped run of ten documents with a checkpoint from before the first step.
func checkpointedEarly(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(1, 10)...)
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Stats().Cursor == 10 })
	if step, err := run.Checkpoint(t.Context()); err != nil || step != 0 {
		t.Fatal(step, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return w
}

// Checkpoints of an earlier run of the same name do not affect a new run.
func TestNewRun_IgnoresCheckpointsOfEarlierRun(t *testing.T) {
	w := checkpointedEarly(t)
	fresh := newFixture(w.config)
	fresh.docs.lengths(someLengths(2, 200)...)
	w.docs.docs, w.plan = fresh.docs.docs, &memLog{} // documents and plan were deleted, checkpoints were not
	var plans [2][]*assembly.Batch
	for i, x := range []*fixture{w, fresh} {
		served, _ := x.start(t)
		if _, err := served.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if names := x.checkpoints.names(); slices.Contains(names, "step-00000000000000000000") {
			t.Error("the checkpoint of the earlier run is left")
		}
		plans[i] = read(t, served, state.RankID{World: 1}, 0, 0)
	}
	if !reflect.DeepEqual(plans[0], plans[1]) {
		t.Fatal("the old checkpoint shaped the new run")
	}
}

// A checkpoint from before the first step is restored like any other.
func TestCheckpoint_RestoredFromBeforeFirstStep(t *testing.T) {
	w := checkpointedEarly(t)
	w.docs.docs[0].Tokens = nil // reading it again would fail the run
	w.docs.lengths(someLengths(2, 100)...)
	w.options.Ahead = 100
	run, _ := w.start(t)
	if _, err := run.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return run.Stats().Cursor == 110 })
}

// Checkpoints of steps that the plan does not contain do not displace valid ones.
func TestCheckpoint_UnknownStepsDoNotDisplaceValidOnes(t *testing.T) {
	w := newFixture(config("concat"))
	w.docs.lengths(slices.Repeat([]int{16}, 100)...)
	_, stop := w.start(t)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"step-00000000000000007001", "step-00000000000000007002", "step-00000000000000007003"} {
		w.checkpoints.data[name] = []byte("from a backup")
	}
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 12)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	names := w.checkpoints.names()
	if len(names) == 0 || names[len(names)-1] > "step-00000000000000000100" {
		t.Fatalf("kept %v", names)
	}
}

// lateLog shows an earlier end of the plan until a time, as a server does that has just restarted.
type lateLog struct {
	*memLog
	shows uint64
	until time.Time
}

func (l lateLog) Last(ctx context.Context) (uint64, error) {
	last, err := l.memLog.Last(ctx)
	if time.Now().Before(l.until) {
		last = min(last, l.shows)
	}
	return last, err
}

// A server of a cluster may show an earlier end of the plan than a checkpoint covers. It has time to catch up; if it
// does not, the run reports PLAN_TRUNCATED.
func TestPlanEnd_LaggingServerCatchesUpOrIsTruncated(t *testing.T) {
	for late, want := range map[time.Duration]fault.Reason{3 * time.Second: "", time.Hour: fault.PlanTruncated} {
		bubble(t, late.String(), func(t *testing.T) {
			w, cluster := newFixture(config("concat")), newTestCluster()
			w.options.CheckpointSteps, w.options.Ahead = 5, 30
			w.docs.lengths(slices.Repeat([]int{16}, 400)...)
			first, stop := w.join(t, cluster, "first")
			eventually(t, func() bool { return first.Stats().Checkpoint >= 20 })
			must(t, stop())
			w.edges = func(e *backend.Backends) {
				e.Plan, e.Elector, e.Bus, e.Daemon = lateLog{w.plan, 9, time.Now().Add(late)}, cluster, cluster, "second"
			}
			began := time.Now()
			_, err := w.open(t)
			if reason(err) != want || err == nil && time.Since(began) < late {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		})
	}
}
