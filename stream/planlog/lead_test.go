package planlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/loader"
	"loaderd/stream"
	"loaderd/stream/planlog"
)

// openLeads makes a candidate for the lead of a run.
func openLeads(t *testing.T, s *stream.Store, run string) *planlog.Leads {
	t.Helper()
	l, err := planlog.OpenLeads(natstest.Within(t, time.Minute), s, run, planlog.NewHolder("host", 1))
	if err != nil {
		t.Fatal(err)
	}
	l.ServesAt("grpc://127.0.0.1:8815")
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// take takes the lead within a time.
func take(t *testing.T, l *planlog.Leads, within time.Duration) (loader.Lead, error) {
	lead, err := l.Take(natstest.Within(t, within))
	if lead != nil {
		t.Cleanup(func() {
			defer func() { _ = recover() }() // closed by the test
			_ = lead.Close()
		})
	}
	return lead, err
}

func TestOneDaemonLeads(t *testing.T) {
	s := natstest.Start(t)
	first, err := take(t, openLeads(t, s.Store(), "run"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	second := openLeads(t, s.Remote(), "run")
	if _, err := take(t, second, 3*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Take = %v beside one that leads", err)
	}
	_, err = second.Seize(natstest.Within(t, time.Minute))
	var led *planlog.LedError
	if !errors.As(err, &led) || led.Run != "run" || !strings.Contains(err.Error(), "127.0.0.1:8815") {
		t.Fatalf("Seize = %v", err)
	}
	if err := first.Sure(t.Context()); err != nil {
		t.Errorf("Sure = %v", err)
	}
	if _, err := take(t, openLeads(t, s.Remote(), "another-run"), time.Minute); err != nil {
		t.Fatalf("another run: %v", err)
	}
	// A clean stop hands over at once.
	began := make(chan time.Time, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		began <- time.Now()
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := take(t, second, time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Logf("handed over in %v", time.Since(<-began))
}

// A daemon that dies says nothing: its connection just ends. Behind one server the next one leads at once.
func TestALeadEndsWithTheConnection(t *testing.T) {
	s := natstest.Start(t)
	link := natstest.NewLink(t, s.Store().ClientURL())
	first, err := take(t, openLeads(t, s.RemoteAt(link.URL()), "run"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	link.Cut()
	if _, err := take(t, openLeads(t, s.Store(), "run"), time.Minute); err != nil {
		t.Fatal(err)
	}
	natstest.Soon(t, "the first one doubts that it leads", func() bool {
		sure, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return errors.Is(first.Sure(sure), context.DeadlineExceeded)
	})
}

func TestOfDaemonsThatStartTogetherOneLeads(t *testing.T) {
	s := natstest.Start(t)
	for round := range 5 {
		leaders := make(chan loader.Lead, 3)
		ctx, over := context.WithCancel(natstest.Context(t))
		var all sync.WaitGroup
		for _, st := range []*stream.Store{s.Store(), s.Remote(), s.Remote()} {
			candidate := openLeads(t, st, fmt.Sprint("run-", round))
			all.Go(func() {
				if lead, err := candidate.Take(ctx); err == nil {
					leaders <- lead
					time.AfterFunc(time.Second, over) // so long the others try
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

// Who takes the lead from a daemon that is there deposes it: it learns so by itself.
func TestADeposedDaemonLearnsIt(t *testing.T) {
	s := natstest.Start(t)
	first, err := take(t, openLeads(t, s.Store(), "run"), time.Minute)
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
	case <-first.Over():
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	if err := first.Sure(t.Context()); !errors.Is(err, loader.ErrDeposed) {
		t.Errorf("Sure = %v", err)
	}
	// What stands there now is of nobody who answers, and a record that cannot be read no less.
	for _, record := range []string{`{"id":"another"}`, "", "\xff", "[]"} {
		if _, err := kv.PutString(t.Context(), "run", record); err != nil {
			t.Fatal(err)
		}
		lead, err := openLeads(t, s.Remote(), "run").Seize(natstest.Within(t, time.Minute))
		if err != nil {
			t.Fatalf("record %q: %v", record, err)
		}
		if err := lead.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A refresh whose answer was lost makes the next one wrong: the record in its place is one's own, and nobody is deposed.
func TestALostAnswerDeposesNobody(t *testing.T) {
	s := natstest.Start(t)
	lead, err := take(t, openLeads(t, s.Store(), "run"), time.Minute)
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
	natstest.Soon(t, "the lead is refreshed behind its own record", func() bool {
		record, err := kv.Get(t.Context(), "run")
		return err == nil && record.Revision() > own
	})
	select {
	case <-lead.Over():
		t.Error("it is deposed")
	default:
	}
	if err := lead.Sure(natstest.Within(t, time.Minute)); err != nil {
		t.Errorf("Sure = %v", err)
	}
}

func TestALeadNeedsAServer(t *testing.T) {
	s := natstest.Start(t)
	candidate := openLeads(t, s.Remote(), "run")
	s.Stop()
	if _, err := take(t, candidate, 200*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}
