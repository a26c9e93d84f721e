package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/lease"
)

// newElector returns a candidate for the lease of a run.
func newElector(t *testing.T, s *stream.Store, run string) *lease.Elector {
	t.Helper()
	l, err := lease.NewElector(natstest.TimeoutContext(t, time.Minute), s, run, lease.NewLeaderInfo("host", 1))
	if err != nil {
		t.Fatal(err)
	}
	l.SetFlightAddress("grpc://127.0.0.1:8815")
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// acquire acquires the lease within a time.
func acquire(t *testing.T, l *lease.Elector, within time.Duration) (backend.Lease, error) {
	lead, err := l.Acquire(natstest.TimeoutContext(t, within))
	if lead != nil {
		t.Cleanup(func() {
			defer func() { _ = recover() }() // closed by the test
			_ = lead.Close()
		})
	}
	return lead, err
}

func TestElector_OneDaemonHoldsTheLease(t *testing.T) {
	s := natstest.Start(t)
	first, err := acquire(t, newElector(t, s.Store(), "run"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	second := newElector(t, s.OpenRemote(), "run")
	if _, err := acquire(t, second, 3*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Acquire = %v while another daemon leads", err)
	}
	_, err = second.TryAcquire(natstest.TimeoutContext(t, time.Minute))
	var led *lease.HeldError
	if !errors.As(err, &led) || led.Run != "run" || !strings.Contains(err.Error(), "127.0.0.1:8815") {
		t.Fatalf("TryAcquire = %v", err)
	}
	if err := first.Verify(t.Context()); err != nil {
		t.Errorf("Verify = %v", err)
	}
	if _, err := acquire(t, newElector(t, s.OpenRemote(), "another-run"), time.Minute); err != nil {
		t.Fatalf("another run: %v", err)
	}
	// A clean stop releases the lease immediately.
	began := make(chan time.Time, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		began <- time.Now()
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := acquire(t, second, time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Logf("handed over in %v", time.Since(<-began))
}

// A daemon that fails does not release its lease, but its connection ends. With one server the next daemon
// leads immediately.
func TestLease_EndsWithTheConnection(t *testing.T) {
	s := natstest.Start(t)
	link := natstest.NewLink(t, s.Store().ClientURL())
	first, err := acquire(t, newElector(t, s.OpenRemoteAt(link.URL()), "run"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	link.Cut()
	if _, err := acquire(t, newElector(t, s.Store(), "run"), time.Minute); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the first daemon no longer trusts its lease", func() bool {
		verify, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return errors.Is(first.Verify(verify), context.DeadlineExceeded)
	})
}

func TestElector_ConcurrentCandidates(t *testing.T) {
	s := natstest.Start(t)
	for round := range 5 {
		leaders := make(chan backend.Lease, 3)
		ctx, over := context.WithCancel(natstest.Context(t))
		var all sync.WaitGroup
		for _, st := range []*stream.Store{s.Store(), s.OpenRemote(), s.OpenRemote()} {
			candidate := newElector(t, st, fmt.Sprint("run-", round))
			all.Go(func() {
				if lead, err := candidate.Acquire(ctx); err == nil {
					leaders <- lead
					time.AfterFunc(time.Second, over) // the other candidates try meanwhile
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		over()
		if len(leaders) != 1 {
			t.Fatalf("%d leaders", len(leaders))
		}
		_ = (<-leaders).Close()
	}
}

// A daemon whose record another process replaces loses the lease.
func TestLease_LostToAnotherProcess(t *testing.T) {
	s := natstest.Start(t)
	first, err := acquire(t, newElector(t, s.Store(), "run"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := s.Store().Own().JetStream().KeyValue(t.Context(), "loaderd_leads")
	if err == nil {
		_, err = kv.PutString(t.Context(), "run", `{"id":"another"}`)
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Lost():
	case <-time.After(time.Minute):
		t.Fatal("the lease is not lost")
	}
	if err := first.Verify(t.Context()); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("Verify = %v", err)
	}
	// No process responds for these records.
	for _, record := range []string{`{"id":"another"}`, "", "\xff", "[]"} {
		if _, err := kv.PutString(t.Context(), "run", record); err != nil {
			t.Fatal(err)
		}
		lead, err := newElector(t, s.OpenRemote(), "run").TryAcquire(natstest.TimeoutContext(t, time.Minute))
		if err != nil {
			t.Fatalf("record %q: %v", record, err)
		}
		if err := lead.Close(); err != nil {
			t.Error(err)
		}
	}
}

// After a renewal whose response was lost, the next renewal fails. The record is the daemon's own, so the lease
// is not lost.
func TestLease_LostRenewalResponseKeepsLease(t *testing.T) {
	s := natstest.Start(t)
	lead, err := acquire(t, newElector(t, s.Store(), "run"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := s.Store().Own().JetStream().KeyValue(t.Context(), "loaderd_leads")
	if err != nil {
		t.Fatal(err)
	}
	record, err := kv.Get(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	own, err := kv.Put(t.Context(), "run", record.Value())
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the lease is renewed after its own record", func() bool {
		record, err := kv.Get(t.Context(), "run")
		return err == nil && record.Revision() > own
	})
	select {
	case <-lead.Lost():
		t.Error("the lease is lost")
	default:
	}
	if err := lead.Verify(natstest.TimeoutContext(t, time.Minute)); err != nil {
		t.Errorf("Verify = %v", err)
	}
}

func TestElector_AcquireWithoutServerTimesOut(t *testing.T) {
	s := natstest.Start(t)
	candidate := newElector(t, s.OpenRemote(), "run")
	s.Stop()
	if _, err := acquire(t, candidate, 200*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}
