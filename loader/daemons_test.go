package loader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/plan"
)

// company is the daemons of one run: who leads, and what carries their words.
type company struct {
	mu      sync.Mutex
	leader  *memLead
	free    chan struct{} // closed when nobody leads
	ears    map[int]func([]byte)
	answers map[int]func(context.Context, []byte) []byte
	next    int
	deaf    bool // words are lost
}

func newCompany() *company {
	c := &company{free: make(chan struct{}), ears: map[int]func([]byte){}, answers: map[int]func(context.Context, []byte) []byte{}}
	close(c.free)
	return c
}

// memLead is the lead of one daemon.
type memLead struct {
	c    *company
	over chan struct{}
}

func (c *company) Take(ctx context.Context) (loader.Lead, error) {
	for {
		c.mu.Lock()
		if c.leader == nil {
			c.leader, c.free = &memLead{c, make(chan struct{})}, make(chan struct{})
			defer c.mu.Unlock()
			return c.leader, nil
		}
		free := c.free
		c.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// depose takes the lead from whoever has it, who does not know at once.
func (c *company) depose(tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == nil {
		return
	}
	if tell {
		close(c.leader.over)
	}
	c.leader = nil
	close(c.free)
}

func (l *memLead) Sure(context.Context) error { return nil }
func (l *memLead) Over() <-chan struct{}      { return l.over }
func (l *memLead) Close() error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.leader == l {
		l.c.leader = nil
		close(l.c.free)
	}
	return nil
}

func (c *company) Say(word []byte) error {
	c.mu.Lock()
	ears := slices.Collect(maps.Values(c.ears))
	if c.deaf {
		ears = nil
	}
	c.mu.Unlock()
	for _, f := range ears {
		f(word)
	}
	return nil
}

func (c *company) Hear(f func([]byte)) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	id := c.next
	c.ears[id] = f
	return func() { c.mu.Lock(); defer c.mu.Unlock(); delete(c.ears, id) }, nil
}

func (c *company) Answer(f func(context.Context, []byte) []byte) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	id := c.next
	c.answers[id] = f
	return func() { c.mu.Lock(); defer c.mu.Unlock(); delete(c.answers, id) }, nil
}

func (c *company) Ask(ctx context.Context, question []byte) ([]byte, error) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.answers))
	c.mu.Unlock()
	if len(all) == 0 {
		return nil, loader.ErrNobodyLeads
	}
	return all[rand.IntN(len(all))](ctx, question), nil
}

// join starts one more daemon of a world's run.
func (w *world) join(t *testing.T, c *company, name string) (run *loader.Run, stop func() error) {
	t.Helper()
	before := w.edges
	defer func() { w.edges = before }()
	w.edges = func(e *loader.Edges) {
		if before != nil {
			before(e)
		}
		e.Leads, e.Bus, e.Daemon = c, c, name
	}
	run, err := w.open(t)
	if err != nil {
		t.Fatal(err)
	}
	run.ServesAt("grpc://" + name)
	return run, w.serve(t, run)
}

// Several daemons serve the steps of one, whoever leads and however often that changes; whatever is asked of any of them is recorded.
func TestDaemonsOfOneRun(t *testing.T) {
	for _, tell := range []bool{true, false} {
		t.Run(fmt.Sprint("told=", tell), func(t *testing.T) {
			c := config("bfd")
			alone := newWorld(c)
			alone.docs.lengths(someLengths(5, 600)...)
			only, _ := alone.start(t)
			if _, err := only.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := read(t, only, loader.Place{World: 1}, 0, 0)

			w, company := newWorld(c), newCompany()
			w.options.Checkpoint, w.options.Ahead, w.options.Stall = 5, 2, 20*time.Second
			w.docs.lengths(someLengths(5, 600)...)
			runs := make([]*loader.Run, 3)
			for i := range runs {
				runs[i], _ = w.join(t, company, fmt.Sprint("daemon", i))
			}
			eventually(t, func() bool { return len(runs[0].Info().Daemons) == 3 && len(runs[2].Info().Daemons) == 3 })
			if at, err := runs[2].Seal(t.Context()); err != nil || at != 600 {
				t.Fatalf("Seal = %d, %v", at, err)
			}
			got := make([][]*loader.Batch, len(runs))
			var reading sync.WaitGroup
			for i, run := range runs {
				reading.Go(func() { got[i] = read(t, run, loader.Place{Job: fmt.Sprint(i), World: 1}, 0, 0) })
			}
			done := make(chan struct{})
			go func() { reading.Wait(); close(done) }()
			for n := uint64(1); ; n++ {
				select {
				case <-done:
				case <-time.After(20 * time.Millisecond):
					company.depose(tell)
					if at, err := runs[n%3].Commit(t.Context(), plan.DefaultKeeper, min(n, runs[n%3].Info().Planned)); err != nil {
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
					if !slices.Equal(batches[k].Tokens, want[k].Tokens) {
						t.Fatalf("step %d of daemon %d differs", k, i)
					}
				}
			}
		})
	}
}

// A daemon that has never led knows what the plan holds, keepers too, and its readers drive the plan on.
func TestADaemonThatFollows(t *testing.T) {
	w, company := newWorld(config("concat")), newCompany()
	w.options.Ahead, w.options.Stall = 2, 10*time.Second
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	first, stop := w.join(t, company, "first")
	if _, err := first.Commit(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	second, _ := w.join(t, company, "second")
	if batches := read(t, second, loader.Place{World: 1}, 0, 20); len(batches) != 20 {
		t.Fatalf("%d steps", len(batches))
	}
	if have := second.Info().Keepers; have["a"] != 1 {
		t.Errorf("the keepers are %v", have)
	}
	if _, err := second.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A reader far behind the plan's end, and one before it, are refused as by the leader.
	if _, err := second.Join(loader.Place{World: 1}, 1000); reason(err) != loader.StepNotPlanned {
		t.Errorf("Join = %v", err)
	}
	// When nobody leads, a reader learns it; when the first one has stopped, the second leads.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if batches := read(t, second, loader.Place{World: 1}, 20, 10); len(batches) != 10 {
		t.Fatalf("%d steps", len(batches))
	}
}

// What a rank waits for when no daemon leads is told.
func TestNobodyLeads(t *testing.T) {
	w, company := newWorld(config("concat")), newCompany()
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	if _, err := company.Take(t.Context()); err != nil { // somebody who never plans
		t.Fatal(err)
	}
	w.options.Stall = 4 * time.Second
	run, _ := w.join(t, company, "second")
	r, err := run.Join(loader.Place{World: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(t.Context()); reason(err) != loader.NotLeading {
		t.Errorf("Next = %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := run.Commit(ctx, "a", 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Commit = %v", err)
	}
}
