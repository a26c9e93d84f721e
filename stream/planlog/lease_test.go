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
	"loaderd/stream"
	"loaderd/stream/planlog"
)

func holder(pid int) planlog.Holder {
	return planlog.Holder{Host: "host", PID: pid, Started: time.Unix(1700000000, 0).UTC(), Flight: "127.0.0.1:8815"}
}

func TestOnePlannerARun(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.Within(t, time.Minute)
	first, err := planlog.TakeLease(ctx, s.Store(), "run", holder(1))
	if err != nil {
		t.Fatal(err)
	}
	remote := s.Remote()
	_, err = planlog.TakeLease(ctx, remote, "run", holder(2))
	var led *planlog.LedError
	if !errors.As(err, &led) || led.Holder != holder(1) || led.Run != "run" {
		t.Fatalf("error %v, want a LedError that names process 1", err)
	}
	if !strings.Contains(err.Error(), "127.0.0.1:8815") {
		t.Errorf("error %q does not say where readers find the leader", err)
	}
	other, err := planlog.TakeLease(ctx, remote, "another-run", holder(2))
	if err != nil {
		t.Fatalf("another run: %v", err)
	}
	if err := errors.Join(first.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	next, err := planlog.TakeLease(ctx, remote, "run", holder(2))
	if err != nil {
		t.Fatalf("after the leader gave up: %v", err)
	}
	if got := next.Holder(); got != holder(2) {
		t.Errorf("holder %v", got)
	}
}

// A planner that dies says nothing: its connection just ends. The next one leads at once.
func TestLeaseEndsWithTheConnection(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.Within(t, time.Minute)
	link := natstest.NewLink(t, s.Store().ClientURL())
	if _, err := planlog.TakeLease(ctx, s.RemoteAt(link.URL()), "run", holder(1)); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	natstest.Soon(t, "the dead planner's run is led by another", func() bool {
		_, err := planlog.TakeLease(ctx, s.Store(), "run", holder(2))
		return err == nil
	})
}

func TestOfPlannersThatStartTogetherOneLeads(t *testing.T) {
	s := natstest.Start(t)
	stores := []*stream.Store{s.Store(), s.Remote(), s.Remote()}
	ctx := natstest.Within(t, time.Minute)
	for round := range 5 {
		run := fmt.Sprint("run-", round)
		errs := make([]error, len(stores))
		var all sync.WaitGroup
		for i, st := range stores {
			all.Go(func() { _, errs[i] = planlog.TakeLease(ctx, st, run, holder(i+1)) })
		}
		all.Wait()
		leaders := 0
		for _, err := range errs {
			var led *planlog.LedError
			switch {
			case err == nil:
				leaders++
			case !errors.As(err, &led):
				t.Fatal(err)
			}
		}
		if leaders != 1 {
			t.Fatalf("%d leaders: %v", leaders, errs)
		}
	}
}

func TestLeaseIgnoresNoise(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.Within(t, time.Minute)
	noise, err := s.Remote().Conn().Subscribe("loaderd.lead.>", nil)
	if err == nil {
		t.Fatal("a subscription without a handler was taken")
	}
	nc := s.Remote().Conn()
	if noise, err = nc.SubscribeSync("loaderd.lead.>"); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		m, err := noise.NextMsgWithContext(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		for _, word := range []string{"", "null", "{", `{"leading":true}`, "\xff"} {
			if err := m.Respond([]byte(word)); err != nil {
				t.Error(err)
			}
		}
	})
	lease, err := planlog.TakeLease(ctx, s.Store(), "run", holder(1))
	if err != nil {
		t.Fatal(err)
	}
	answers.Wait()
	for _, question := range []string{"", "[]", `{"id":""}`} {
		if m, err := nc.RequestWithContext(ctx, "loaderd.lead.run", []byte(question)); err != nil || !strings.Contains(string(m.Data), `"pid":1`) {
			t.Errorf("question %q: %v, %v", question, m, err)
		}
	}
	if err := lease.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLeaseNeedsAServer(t *testing.T) {
	s := natstest.Start(t)
	remote := s.Remote()
	s.Stop()
	if _, err := planlog.TakeLease(natstest.Within(t, 200*time.Millisecond), remote, "run", holder(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}
