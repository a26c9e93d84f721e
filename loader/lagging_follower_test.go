package loader_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// behindLog shows an old end of the plan while old returns true.
type behindLog struct {
	*memLog
	last uint64
	old  func() bool
}

func (l behindLog) Last(ctx context.Context) (uint64, error) {
	last, err := l.memLog.Last(ctx)
	if l.old() {
		last = min(last, l.last)
	}
	return last, err
}

func (l behindLog) Scan(ctx context.Context, from uint64, f func(uint64, []byte) error) error {
	if l.old() {
		return nil
	}
	return l.memLog.Scan(ctx, from, f)
}

// A partitioned leader does not report STEP_NOT_PLANNED while another leader extends the plan. This holds from the
// moment its lease is in doubt until it receives the other leader's position.
func TestStepNotPlanned_NotReportedByPartitionedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster := newFixture(config("concat")), newTestCluster()
		w.options.Ahead, w.options.CheckpointSteps = 2, 0
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		first, stop := w.join(t, cluster, "first")
		read(t, first, state.RankID{World: 1}, 0, 5)
		second, stopSecond := w.join(t, cluster, "second")
		cluster.depose(lossSuspected)
		if _, err := first.Join(state.RankID{World: 1}, 38); reason(err) != fault.NotLeading {
			t.Errorf("while it is in doubt: Join = %v", err)
		}
		read(t, second, state.RankID{World: 1}, 0, 40)
		for range 1000 {
			r, err := first.Join(state.RankID{World: 1}, 38)
			if err == nil {
				r.Close()
			} else if reason(err) != fault.NotLeading {
				t.Fatalf("later: Join = %v", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Second) // the first daemon has learned of the leader
		if r, err := first.Join(state.RankID{World: 1}, 38); err != nil {
			t.Errorf("Join = %v", err)
		} else {
			r.Close()
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Error(err)
		}
	})
}

// A daemon that opened the plan on a lagging server does not report STEP_NOT_PLANNED. Its ranks are asked to retry
// until it has received a heartbeat of a leader.
func TestStepNotPlanned_NotReportedBeforeFirstHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster := newFixture(config("concat")), newTestCluster()
		w.options.Ahead, w.options.CheckpointSteps = 2, 0
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		first, stop := w.join(t, cluster, "first")
		read(t, first, state.RankID{World: 1}, 0, 40)
		cluster.setDeaf(true)
		var caughtUp atomic.Bool
		w.edges = func(e *backend.Backends) { e.Plan = behindLog{w.plan, 10, func() bool { return !caughtUp.Load() }} }
		second, stopSecond := w.join(t, cluster, "second")
		if _, err := second.Join(state.RankID{World: 1}, 38); reason(err) != fault.NotLeading {
			t.Errorf("Join = %v", err)
		}
		cluster.setDeaf(false)
		time.Sleep(time.Second)
		if _, err := second.Join(state.RankID{World: 1}, 1000); reason(err) != fault.StepNotPlanned {
			t.Errorf("Join = %v", err)
		}
		if r, err := second.Join(state.RankID{World: 1}, first.Info().Planned+1); err != nil { // beyond all readers
			t.Errorf("Join = %v", err)
		} else {
			r.Close()
		}
		caughtUp.Store(true)
		if batches := read(t, second, state.RankID{World: 1}, 38, 3); len(batches) != 3 {
			t.Errorf("%d steps", len(batches))
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Error(err)
		}
	})
}

// neverLeads is an elector that never grants the lease.
type neverLeads struct{ backend.Elector }

func (neverLeads) Acquire(ctx context.Context) (backend.Lease, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A daemon that reads from a lagging server does not report STEP_NOT_PLANNED after a failover because of what the old
// leader reported.
func TestStepNotPlanned_NotReportedByLaggingFollower(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("it hears nothing any more %v", deaf), func(t *testing.T) { behindWhenAnotherLeads(t, deaf) })
	}
}

func behindWhenAnotherLeads(t *testing.T, deaf bool) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster := newFixture(config("concat")), newTestCluster()
		w.options.Ahead, w.options.CheckpointSteps = 2, 0
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		_, stop := w.join(t, cluster, "first")
		var behind atomic.Bool
		w.edges = func(e *backend.Backends) { e.Plan = behindLog{w.plan, 1 << 40, behind.Load} }
		third, err := func() (*loader.Run, error) {
			defer func(before func(*backend.Backends)) { w.edges = before }(w.edges)
			plan := w.edges
			w.edges = func(e *backend.Backends) {
				plan(e)
				e.Elector, e.Bus, e.Daemon = neverLeads{cluster}, cluster, "third"
			}
			return w.open(t)
		}()
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- third.Serve(ctx) }()
		w.edges = nil
		second, stopSecond := w.join(t, cluster, "second")
		read(t, third, state.RankID{World: 1}, 0, 5)
		time.Sleep(time.Second) // the third daemon has received a heartbeat of the leader
		behind.Store(true)
		cluster.setDeaf(deaf)
		if err := stop(); err != nil {
			t.Error(err)
		}
		read(t, second, state.RankID{World: 1}, 0, 40)
		for range 500 {
			if r, err := third.Join(state.RankID{World: 1}, 38); err == nil {
				r.Close()
			} else if reason(err) != fault.NotLeading {
				t.Fatalf("Join = %v", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		behind.Store(false)
		cluster.setDeaf(false)
		time.Sleep(5 * time.Second)
		if _, err := third.Join(state.RankID{World: 1}, 1000); reason(err) != fault.StepNotPlanned {
			t.Errorf("when it has caught up: Join = %v", err)
		}
		if batches := read(t, third, state.RankID{World: 1}, 38, 3); len(batches) != 3 {
			t.Errorf("%d steps", len(batches))
		}
		end()
		if err := errors.Join(stopSecond(), <-ended); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// An old end of the plan is not trusted if a checkpoint covers later records.
func TestPlanEnd_IgnoredIfCheckpointCoversMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster := newFixture(config("concat")), newTestCluster()
		w.options.Ahead, w.options.CheckpointSteps = 2, 4
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		first, stop := w.join(t, cluster, "first")
		read(t, first, state.RankID{World: 1}, 0, 40)
		eventually(t, func() bool { return first.Stats().Checkpoint > 8 })
		asked := 0
		w.edges = func(e *backend.Backends) {
			e.Plan = behindLog{w.plan, 10, func() bool { asked++; return asked == 2 || asked == 4 }} // the two reads of the end
		}
		cluster.setDeaf(true)
		second, stopSecond := w.join(t, cluster, "second")
		if have, want := second.Info().Planned, first.Info().Planned; have != want {
			t.Errorf("it knows %d steps of %d", have, want)
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Error(err)
		}
	})
}

// robbed is a document stream that reports lost documents once lost is closed.
type robbed struct {
	*memDocs
	lost chan struct{}
}

type robbedSource struct {
	blockingSource
	lost chan struct{}
}

func (d robbed) Read(ctx context.Context, from uint64) (document.Source, error) {
	s, err := d.memDocs.open(from)
	if err != nil {
		return nil, err
	}
	return queued(robbedSource{s, d.lost}), nil
}

func (s robbedSource) Next(ctx context.Context) ([]document.Document, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	docs, err := s.blockingSource.Next(ctx)
	select {
	case <-s.lost:
		return nil, errPurged
	default:
		return docs, err
	}
}

// A daemon that has lost leadership without noticing takes documents that its successor has purged for lost. It does
// not stop because of that, but continues as a follower.
func TestLostDocuments_DaemonWithoutLeaseContinuesAsFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster := newFixture(config("concat")), newTestCluster()
		w.docs.lengths(slices.Repeat([]int{16}, 100)...)
		lost := make(chan struct{})
		w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: robbed{w.docs, lost}} }
		first, stop := w.join(t, cluster, "first")
		read(t, first, state.RankID{World: 1}, 0, 3)
		cluster.depose(lossSuspected)
		close(lost)
		w.edges = nil
		w.docs.lengths(slices.Repeat([]int{16}, 100)...)
		second, stopSecond := w.join(t, cluster, "second")
		want := read(t, second, state.RankID{World: 1}, 0, 20)
		if have := read(t, first, state.RankID{World: 1}, 0, 20); !reflect.DeepEqual(have, want) {
			t.Error("it follows with other steps")
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// A step's documents may be gone because every job has committed it. The commits are in the plan, and a daemon
// reports STEP_PURGED even if it has not read that part of the plan yet.
func TestStepPurged_ReportedBeforeCommitsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := purging(config("concat"))
		cluster := newTestCluster()
		w.options.Ahead, w.options.CheckpointSteps, w.options.PurgeDelay = 2, 2, time.Millisecond
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		first, stop := w.join(t, cluster, "first")
		read(t, first, state.RankID{Job: "a", World: 1}, 0, 30)
		second, stopSecond := w.join(t, cluster, "second")
		eventually(t, func() bool { return second.Info().Planned == first.Info().Planned })
		early, err := second.Step(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		cluster.setDeaf(true)
		time.Sleep(501 * time.Millisecond) // the second daemon has just polled
		if _, err := first.Commit(t.Context(), "a", 28); err != nil {
			t.Fatal(err)
		}
		if err := first.Release(t.Context()); err != nil || w.first() < 4 {
			t.Fatalf("documents from %d on are left, %v", w.first(), err)
		}
		if have := second.Info().Commits["a"]; have.Step != 0 {
			t.Fatalf("it knows of the commit of step %d", have)
		}
		if _, err := second.Assemble(t.Context(), early, 0, 1); reason(err) != fault.StepPurged {
			t.Errorf("Assemble = %v", err)
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Error(err)
		}
	})
}
