package loader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	blinded bool // somebody who was ousted knew nothing of it
}

func newCompany() *company {
	c := &company{free: make(chan struct{}), ears: map[int]func([]byte){}, answers: map[int]func(context.Context, []byte) []byte{}}
	close(c.free)
	return c
}

// memLead is the lead of one daemon.
type memLead struct {
	c     *company
	over  chan struct{}
	blind bool // it is sure of itself, whoever leads
}

// ousted is what a daemon knows that has lost the lead.
type ousted string

const (
	told   ousted = "is told"
	doubts ousted = "is not sure any more"
	blind  ousted = "knows nothing"
)

func (c *company) Take(ctx context.Context) (loader.Lead, error) {
	for {
		c.mu.Lock()
		if c.leader == nil {
			c.leader, c.free = &memLead{c: c, over: make(chan struct{})}, make(chan struct{})
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

// oust takes the lead from whoever has it.
func (c *company) oust(knows ousted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == nil {
		return
	}
	c.leader.blind = knows == blind
	c.blinded = c.blinded || c.leader.blind
	if over := c.leader.over; knows == told {
		close(over)
	} else { // it finds out when it refreshes its record
		time.AfterFunc(3*time.Second, func() { close(over) })
	}
	c.leader = nil
	close(c.free)
}

func (l *memLead) Sure(context.Context) error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.leader != l && !l.blind {
		return loader.ErrDeposed
	}
	return nil
}

func (l *memLead) Over() <-chan struct{} { return l.over }
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
	for _, knows := range []ousted{told, doubts, blind} {
		t.Run(string(knows), func(t *testing.T) {
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
					company.oust(knows)
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
	eventually(t, func() bool { return first.Info().Planned > 0 })
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

// behindLog shows an old end of the plan while old says so.
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

// A daemon that has opened the plan on a server that is behind does not say that a step is not planned: it asks its ranks to wait until it has
// heard of one that leads.
func TestADaemonThatHasNotHeardOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, company := newWorld(config("concat")), newCompany()
		w.options.Ahead, w.options.Checkpoint = 2, 0
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		first, stop := w.join(t, company, "first")
		read(t, first, loader.Place{World: 1}, 0, 40)
		company.deaf = true
		var caughtUp atomic.Bool
		w.edges = func(e *loader.Edges) { e.Plan = behindLog{w.plan, 10, func() bool { return !caughtUp.Load() }} }
		second, stopSecond := w.join(t, company, "second")
		if _, err := second.Join(loader.Place{World: 1}, 38); reason(err) != loader.NotLeading {
			t.Errorf("Join = %v", err)
		}
		company.mu.Lock()
		company.deaf = false
		company.mu.Unlock()
		time.Sleep(time.Second)
		if _, err := second.Join(loader.Place{World: 1}, 1000); reason(err) != loader.StepNotPlanned {
			t.Errorf("Join = %v", err)
		}
		if r, err := second.Join(loader.Place{World: 1}, first.Info().Planned+1); err != nil { // further than any reader was
			t.Errorf("Join = %v", err)
		} else {
			r.Close()
		}
		caughtUp.Store(true)
		if batches := read(t, second, loader.Place{World: 1}, 38, 3); len(batches) != 3 {
			t.Errorf("%d steps", len(batches))
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Error(err)
		}
	})
}

// An old end of the plan is not believed beside a checkpoint that lies behind it.
func TestAnOldEndBesideACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, company := newWorld(config("concat")), newCompany()
		w.options.Ahead, w.options.Checkpoint = 2, 4
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		first, stop := w.join(t, company, "first")
		read(t, first, loader.Place{World: 1}, 0, 40)
		eventually(t, func() bool { return first.Stats().Checkpoint > 8 })
		asked := 0
		w.edges = func(e *loader.Edges) {
			e.Plan = behindLog{w.plan, 10, func() bool { asked++; return asked == 2 || asked == 4 }} // the two reads of the end
		}
		company.deaf = true
		second, stopSecond := w.join(t, company, "second")
		if have, want := second.Info().Planned, first.Info().Planned; have != want {
			t.Errorf("it knows %d steps of %d", have, want)
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Error(err)
		}
	})
}

// robbed is a document stream that is found to have lost documents once lost is closed.
type robbed struct {
	*memDocs
	lost chan struct{}
}

type robbedSource struct {
	loader.Source
	lost chan struct{}
}

func (d robbed) Read(ctx context.Context, from uint64) (loader.Source, error) {
	s, err := d.memDocs.Read(ctx, from)
	return robbedSource{s, d.lost}, err
}

func (s robbedSource) Next(ctx context.Context) ([]loader.Document, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	docs, err := s.Source.Next(ctx)
	select {
	case <-s.lost:
		return nil, errPurged
	default:
		return docs, err
	}
}

// A daemon that leads no more, and does not know it yet, takes what its successor has released for lost. It does not end for that: it follows.
func TestALossSeenByOneThatLeadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, company := newWorld(config("concat")), newCompany()
		w.docs.lengths(slices.Repeat([]int{16}, 100)...)
		lost := make(chan struct{})
		w.edges = func(e *loader.Edges) { e.Documents = robbed{w.docs, lost} }
		first, stop := w.join(t, company, "first")
		read(t, first, loader.Place{World: 1}, 0, 3)
		company.oust(doubts)
		close(lost)
		w.edges = nil
		w.docs.lengths(slices.Repeat([]int{16}, 100)...)
		second, stopSecond := w.join(t, company, "second")
		want := read(t, second, loader.Place{World: 1}, 0, 20)
		if have := read(t, first, loader.Place{World: 1}, 0, 20); !reflect.DeepEqual(have, want) {
			t.Error("it follows with other steps")
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// That a step's documents are gone because every keeper has committed it is in the plan, which a daemon may not have read so far.
func TestAReleaseThatOneHasNotReadOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := purging(config("concat"))
		company := newCompany()
		w.options.Ahead, w.options.Checkpoint, w.options.ReleaseAfter = 2, 2, time.Millisecond
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		first, stop := w.join(t, company, "first")
		read(t, first, loader.Place{World: 1}, 0, 30)
		second, stopSecond := w.join(t, company, "second")
		eventually(t, func() bool { return second.Info().Planned == first.Info().Planned })
		early, err := second.Step(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		company.mu.Lock()
		company.deaf = true
		company.mu.Unlock()
		time.Sleep(501 * time.Millisecond) // it has just looked
		if _, err := first.Commit(t.Context(), "a", 28); err != nil {
			t.Fatal(err)
		}
		if err := first.Release(t.Context()); err != nil || w.first() < 4 {
			t.Fatalf("documents from %d on are left, %v", w.first(), err)
		}
		if have := second.Info().Keepers["a"]; have != 0 {
			t.Fatalf("it knows of the commit of step %d", have)
		}
		if _, err := second.Assemble(t.Context(), early, 0, 1); reason(err) != loader.StepReleased {
			t.Errorf("Assemble = %v", err)
		}
		if err := errors.Join(stop(), stopSecond()); err != nil {
			t.Error(err)
		}
	})
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

// lookedAt does something when the checkpoints are listed.
type lookedAt struct {
	*memCheckpoints
	listed func()
}

func (c lookedAt) List(ctx context.Context) ([]loader.Stored, error) {
	c.listed()
	return c.memCheckpoints.List(ctx)
}

// What another daemon plans and stores while one opens the plan, that one knows.
func TestADaemonThatOpensWhileAnotherPlans(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		w, company := newWorld(config("concat")), newCompany()
		w.options.Ahead, w.options.Checkpoint = 2, 4
		w.docs.lengths(slices.Repeat([]int{16}, 100)...)
		first, _ := w.join(t, company, "first")
		read(t, first, loader.Place{World: 1}, 0, 1)
		w.edges = func(e *loader.Edges) {
			e.Checkpoints = lookedAt{w.checkpoints, sync.OnceFunc(func() {
				if sealed {
					if _, err := first.Seal(t.Context()); err != nil {
						t.Error(err)
					}
					read(t, first, loader.Place{World: 1}, 1, 0)
				} else {
					read(t, first, loader.Place{World: 1}, 1, 15)
				}
				eventually(t, func() bool {
					return first.Stats().Checkpoint == first.Info().Planned || !sealed && first.Stats().Checkpoint > 8
				})
			})}
		}
		second, _ := w.join(t, company, "second")
		have, want := second.Info(), first.Info()
		if have.Planned != want.Planned || have.Ended != sealed || want.Ended != sealed {
			t.Errorf("it knows %d steps, ended %v, of %d, ended %v", have.Planned, have.Ended, want.Planned, want.Ended)
		}
	}
}

// A request that changes nothing is answered when what it finds is recorded: another daemon may lead before that.
func TestAnswersWaitForTheLog(t *testing.T) {
	w := newWorld(config("concat"))
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

// A daemon that has lost the lead and is not sure of it any more answers nothing by what it knows: the next one does, which knows better.
func TestADaemonInDoubtAnswersNothing(t *testing.T) {
	w, company := newWorld(config("concat")), newCompany()
	w.options.Ahead, w.options.Checkpoint = 2, 1000
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	first, stop := w.join(t, company, "first")
	eventually(t, func() bool { return first.Info().Planned == 2 })
	second, _ := w.join(t, company, "second")
	company.oust(doubts)
	read(t, second, loader.Place{World: 1}, 0, 20)
	if _, err := second.Commit(t.Context(), "a", 5); err != nil {
		t.Fatal(err)
	}
	if at, err := first.Commit(t.Context(), "b", 20); err != nil || at != 5 { // a step that the first has never planned
		t.Errorf("Commit = %d, %v", at, err)
	}
	company.oust(doubts)
	eventually(t, first.Leads)
	if at, err := second.Checkpoint(t.Context()); err != nil || at < 20 {
		t.Errorf("Checkpoint = %d, %v", at, err)
	}
	company.oust(doubts)
	eventually(t, func() bool { terms, who := w.terms(); return len(terms) == 4 && who[3] == "second" })
	if err := stop(); err != nil { // who stops need not lead
		t.Error(err)
	}
}

// shortDocs gives no documents from a sequence on.
type shortDocs struct {
	*memDocs
	before uint64
}

type shortSource struct {
	loader.Source
	before uint64
}

func (d shortDocs) Read(ctx context.Context, from uint64) (loader.Source, error) {
	s, err := d.memDocs.Read(ctx, from)
	return shortSource{s, d.before}, err
}

func (s shortSource) Next(ctx context.Context) ([]loader.Document, error) {
	if s.Source.Status().Fetched+1 >= s.before {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Source.Next(ctx)
}

// What a daemon knows of the plan it does not forget while it plans the log again.
func TestAReplayForgetsNothing(t *testing.T) {
	w, company := newWorld(config("concat")), newCompany()
	w.options.Ahead, w.options.Checkpoint = 2, 0
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	first, stop := w.join(t, company, "first")
	read(t, first, loader.Place{World: 1}, 0, 5)
	if _, err := first.Commit(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	read(t, first, loader.Place{World: 1}, 5, 25)
	if _, err := first.Commit(t.Context(), "a", 29); err != nil {
		t.Fatal(err)
	}
	w.edges = func(e *loader.Edges) { e.Documents = shortDocs{w.docs, 60} }
	second, _ := w.join(t, company, "second")
	eventually(t, func() bool { return second.Info().Committed == 29 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it begins again where it is ousted
		eventually(t, func() bool { s := second.Stats(); return s.Replaying && s.Cursor > 40 })
		if have := second.Info(); have.Committed != 29 || have.Planned < 30 {
			t.Errorf("%d steps are committed, %d planned", have.Committed, have.Planned)
		}
		company.oust(told)
	}
}
