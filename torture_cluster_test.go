package loaderd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"loaderd/internal/config"
	"loaderd/internal/natstest"
	"loaderd/internal/reader"
	"loaderd/internal/testscale"
	"loaderd/stream/server"
)

// fleet is three daemons of one run, each in a process with a member of the cluster that keeps their streams.
type fleet struct {
	*victim // the first: what it does with one daemon's address, the others' does as well
	members []*victim
}

func newFleet(t *testing.T, c config.Config) *fleet {
	f := &fleet{}
	var routes []string
	for range 3 {
		routes = append(routes, natstest.FreeAddress(t))
	}
	for _, route := range routes {
		c := c
		c.Stream.Dir, c.Stream.Listen, c.Flight.Listen = t.TempDir(), natstest.FreeAddress(t), natstest.FreeAddress(t)
		c.Stream.Cluster, c.Stream.Replicas = server.Cluster{Name: "torture", Listen: route, Peers: routes}, 3
		f.members = append(f.members, newVictim(t, c))
	}
	f.victim = f.members[0]
	for _, v := range f.members[1:] { // what ends one test ends it all
		v.giveUp = f.giveUp
		v.ctx = f.ctx
	}
	return f
}

func (f *fleet) startAll() {
	for _, v := range f.members {
		v.start()
	}
}

// uris are where readers find the daemons.
func (f *fleet) uris() []string {
	var out []string
	for _, v := range f.members {
		out = append(out, v.uri())
	}
	return out
}

// nats is where producers find the servers.
func (f *fleet) nats() string {
	var out []string
	for _, v := range f.members {
		out = append(out, "nats://"+v.c.Stream.Listen)
	}
	return strings.Join(out, ",")
}

// do asks daemons one after the other for an action until one has done it.
func (f *fleet) do(name string, body map[string]any) {
	f.t.Helper()
	var last error
	for try := range 1200 {
		client, err := reader.Open(f.members[try%3].uri(), reader.Options{})
		if err != nil {
			f.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
		last = client.Do(ctx, name, body, nil)
		cancel()
		_ = client.Close()
		if last == nil {
			return
		}
		if f.ctx.Err() != nil {
			break
		}
		pause(f.ctx, 50*time.Millisecond)
	}
	f.t.Fatalf("%s: %v\n%s", name, last, f.logs())
}

// logs are the ends of what the daemons have logged.
func (f *fleet) logs() string {
	var b strings.Builder
	for i, v := range f.members {
		all := v.log.String()
		fmt.Fprintf(&b, "daemon %d:\n%s\n", i, all[max(0, len(all)-4000):])
	}
	return b.String()
}

// fault does something to one daemon, or to two, and undoes it.
func (f *fleet) fault(r *rand.Rand) string {
	v := f.members[r.IntN(3)]
	switch kind := r.IntN(10); {
	case kind < 4:
		v.kill()
		pause(f.ctx, time.Duration(r.IntN(4000))*time.Millisecond)
		v.start()
		return "kill -9"
	case kind < 6: // stopped for longer than it leads without a refresh
		v.signal(syscall.SIGSTOP)
		pause(f.ctx, time.Duration(500+r.IntN(6000))*time.Millisecond)
		v.signal(syscall.SIGCONT)
		return "stop and continue"
	case kind < 8:
		v.terminate()
		v.start()
		return "clean stop"
	default: // no quorum
		w := f.members[r.IntN(3)]
		v.kill()
		w.kill()
		pause(f.ctx, time.Duration(r.IntN(3000))*time.Millisecond)
		v.start()
		if w != v {
			w.start()
		}
		return "kill -9 of two"
	}
}

// TestTortureOfACluster lets things happen to three daemons, each with a server of its own, while documents are published and the ranks of
// two jobs read. What they have in the end is what an undisturbed run over the same documents gives.
func TestTortureOfACluster(t *testing.T) {
	if !testscale.All() {
		t.Skip("it takes minutes: LOADERD_TEST=all")
	}
	faults, seed := tortures(t, 10)
	r := rand.New(rand.NewPCG(seed, 0))

	c := settings(t, "")
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: tokens, VocabSize: 1 << 16, End: "none", Pad: "0"}
	c.Plan.Steps.Rows, c.Serve.Checkpoint, c.Serve.Ahead = 12, 5, 8
	c.Serve.Stall = 5 * time.Second
	f := newFleet(t, c)
	f.startAll()

	published := make(chan error, 1)
	go func() { published <- publishTokens(f.victim, f.nats(), faults*300, seed) }()
	jobs := []string{"trainer", "evaluator"}
	const ranks = 2
	read := func(job string, rank int) ([]reader.Batch, error) {
		return readOn(f.ctx, f.uris(), reader.Ticket{Job: job, Rank: rank, World: ranks}, seed)
	}
	got := make([][]reader.Batch, len(jobs)*ranks)
	errs := make([]error, len(got))
	var reading sync.WaitGroup
	for i := range got {
		reading.Go(func() { got[i], errs[i] = read(jobs[i/ranks], i%ranks) })
	}
	for i := range faults {
		pause(f.ctx, time.Duration(r.IntN(5000))*time.Millisecond)
		if f.ctx.Err() != nil {
			break
		}
		began := time.Now()
		what := f.fault(r)
		t.Logf("fault %d: %s, %v", i, what, time.Since(began).Round(time.Millisecond))
	}
	if err := <-published; err != nil {
		t.Fatalf("publish: %v\n%s", err, f.logs())
	}
	f.do("seal", map[string]any{})
	reading.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d of job %s: %v\n%s", i%ranks, jobs[i/ranks], err, f.logs())
		}
	}
	for _, v := range f.members {
		v.terminate()
		v.c.Run = "calm"
	}
	f.startAll()
	f.do("seal", map[string]any{})
	want := make([][]reader.Batch, ranks)
	for rank := range want {
		reading.Go(func() { want[rank], errs[rank] = read("trainer", rank) })
	}
	reading.Wait()
	for i := range got {
		rank := i % ranks
		if errs[rank] != nil || len(want[rank]) == 0 {
			t.Fatalf("rank %d of the undisturbed run: %d steps, %v\n%s", rank, len(want[rank]), errs[rank], f.logs())
		}
		if len(got[i]) != len(want[rank]) {
			t.Fatalf("rank %d of job %s has %d steps, undisturbed %d", rank, jobs[i/ranks], len(got[i]), len(want[rank]))
		}
		for step := range want[rank] {
			if !reflect.DeepEqual(got[i][step], want[rank][step]) {
				t.Fatalf("step %d of rank %d of job %s differs from the undisturbed run's", step, rank, jobs[i/ranks])
			}
		}
	}
	t.Logf("%d steps for each of %d ranks of %d jobs, byte-identical after %d faults", len(want[0]), ranks, len(jobs), faults)
}
