package torture_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/daemontest"
	"loaderd/internal/flightclient"
	"loaderd/loader"
	"loaderd/stream"
)

// leading returns the leader, once all daemons report the same one.
func (f *fleet) leading() *victim {
	f.t.Helper()
	for range 600 {
		said := map[string]int{}
		for _, v := range f.members {
			var info loader.Info
			client, err := flightclient.Open(v.uri(), flightclient.Options{})
			if err != nil {
				f.t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(f.ctx, 2*time.Second)
			if client.Do(ctx, "info", map[string]any{}, &info) == nil {
				said[info.Leader]++
			}
			cancel()
			_ = client.Close()
		}
		for _, v := range f.members {
			if said[v.uri()] == len(f.members) {
				return v
			}
		}
		pause(f.ctx, 50*time.Millisecond)
	}
	f.t.Fatalf("the daemons do not agree on who leads\n%s", f.logs())
	return nil
}

// arrivals is the times at which a rank received its steps.
type arrivals struct {
	mu  sync.Mutex
	all []time.Time
}

// longest returns the longest time without a step since from. over reports whether a step has arrived since until.
func (a *arrivals) longest(from, until time.Time) (gap time.Duration, over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := from
	for _, at := range a.all {
		if at.Before(from) {
			last = from
			continue
		}
		gap, last = max(gap, at.Sub(last)), at
	}
	return gap, last.After(until)
}

func (a *arrivals) note() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, time.Now())
}

// train reads a rank's steps one by one, from the daemons in turn, to the end of the run or of ctx, and calls trained
// after each.
func (f *fleet) train(rank api.Ticket, first int, trained func(flightclient.Batch)) {
	uris := f.uris()
	rank.Steps, rank.Columns = 1, daemontest.Columns // one step per request, so that none waits in buffers
	for try := first; f.ctx.Err() == nil; try++ {
		client, err := flightclient.Open(uris[try%len(uris)], flightclient.Options{})
		if err != nil {
			f.t.Error(err)
			return
		}
		for more := true; more && err == nil; {
			more = false
			err = client.Read(f.ctx, rank, func(b flightclient.Batch) error {
				more = true
				rank.Step = b.Meta.Step + 1
				trained(b)
				return nil
			})
			pause(f.ctx, 50*time.Millisecond)
		}
		_ = client.Close()
		if err == nil {
			return
		}
		pause(f.ctx, 5*time.Millisecond)
	}
}

// planLeader is a kind of failure that TestTakeover_MeasuresWaitOfRanks measures.
const planLeader = "kill -9 of another daemon whose server leads the plan's stream"

// TestTakeover_MeasuresWaitOfRanks measures how long ranks wait for an unplanned step when one of three daemons fails,
// together with its server. The ranks train 50 ms per step, and no steps are planned ahead. LOADERD_TAKEOVERS is the
// number of measurements per kind of failure. LOADERD_TAKEOVERS_OF selects the kinds whose names contain it.
func TestTakeover_MeasuresWaitOfRanks(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("LOADERD_TAKEOVERS"))
	if n == 0 {
		t.Skip("it measures: make bench-takeover")
	}
	c := daemontest.Settings(t, "")
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: tokens, VocabSize: 1 << 16,
		End: "none", Pad: "0"}
	c.Plan.Steps.Rows, c.Serve.CheckpointSteps, c.Serve.Ahead = 4, 50, 1
	c.Serve.StallTimeout = 20 * time.Second
	f := newFleet(t, c)
	f.startAll()
	if err := publishTokens(f.victim, f.nats(), "torture", 20000+n*4000, 1); err != nil {
		t.Fatal(err)
	}
	store, err := f.open(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ranks := make([]arrivals, 3)
	for i := range ranks {
		go f.train(api.Ticket{Job: fmt.Sprint(i)}, i, func(flightclient.Batch) { ranks[i].note() })
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, kind := range []struct {
		name  string
		other bool // other than the leader
		end   func(v *victim)
	}{
		{"kill -9 of the leading daemon and its server", false, (*victim).kill},
		{"clean stop of the leading daemon and its server", false, (*victim).terminate},
		{"kill -9 of another daemon and its server", true, (*victim).kill},
		{planLeader, true, (*victim).kill},
	} {
		if !strings.Contains(kind.name, os.Getenv("LOADERD_TAKEOVERS_OF")) {
			continue
		}
		waits := map[bool][]time.Duration{} // by whether the failed server led the plan's stream
		for range n {
			pause(f.ctx, time.Duration(5000+r.IntN(1000))*time.Millisecond) // until the fleet has recovered
			v := f.leading()
			if kind.other {
				v = f.members[(slices.Index(f.members, v)+1+r.IntN(2))%3]
			}
			led := f.leadsPlan(store, v)
			for kind.name == planLeader && !led { // the server of the leading daemon has handed it to another one, or will
				pause(f.ctx, 50*time.Millisecond)
				v = f.members[(slices.Index(f.members, f.leading())+1+r.IntN(2))%3]
				led = f.leadsPlan(store, v)
			}
			began := time.Now()
			go kind.end(v)
			var worst time.Duration
			for i := range ranks {
				for {
					wait, over := ranks[i].longest(began, began.Add(time.Second))
					if over {
						worst = max(worst, wait)
						break
					}
					if pause(f.ctx, 10*time.Millisecond); f.ctx.Err() != nil {
						t.Fatalf("%s\n%s", kind.name, f.logs())
					}
				}
			}
			waits[led] = append(waits[led], max(worst-50*time.Millisecond, 0))
			<-v.done
			v.start()
		}
		for led, waits := range waits {
			slices.Sort(waits)
			t.Logf("%s (it led the plan's stream: %v): a rank waited %v in the median, %v at most (%d times)", kind.name, led,
				waits[len(waits)/2].Round(10*time.Millisecond), waits[len(waits)-1].Round(10*time.Millisecond), len(waits))
		}
	}
}

// leadsPlan reports whether a daemon's server leads the plan's stream.
func (f *fleet) leadsPlan(s *stream.Store, v *victim) bool {
	f.t.Helper()
	name := s.Config().PlanStream(v.c.Run).Name
	for range 600 {
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		st, err := s.ForStream(name).JetStream().Stream(ctx, name)
		cancel()
		if err == nil && st.CachedInfo().Cluster != nil && st.CachedInfo().Cluster.Leader != "" {
			_, port, _ := net.SplitHostPort(v.c.Stream.Cluster.Listen)
			return strings.HasSuffix(st.CachedInfo().Cluster.Leader, "-"+port) // part of the server names
		}
		pause(f.ctx, 50*time.Millisecond)
	}
	f.t.Fatalf("no leader of stream %s\n%s", name, f.logs())
	return false
}
