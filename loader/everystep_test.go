package loader_test

import (
	"reflect"
	"slices"
	"testing"

	"loaderd/internal/testscale"
	"loaderd/loader/backend"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

const (
	everySteps  = 500 // minimum length of the plans that are resumed at each step
	resumedFor  = 3   // steps that each restored planner makes
	resumedLong = 125 // interval of the steps from which a planner continues to the end
)

// worlds are the world sizes that share the steps of everyStep.
var worlds = []int{1, 2, 4, 8}

// everyStep returns a configuration that uses every buffer of a planner. The rows of every bucket's steps are
// divisible by 8.
func everyStep(method string) runconfig.Config {
	c := config(method)
	c.Steps.Rows, c.Steps.Balance = 8, true
	c.Packing.Pool, c.Packing.MaxAge, c.Packing.Overlap, c.Packing.Extra, c.Packing.PaddingThreshold = 24, 200,
		0.3, 2, 0.05
	if packonline.IsMultiBucket(method) {
		c.Packing.Buckets, c.Steps.Table = []int{8, 16, 32}, []int{16, 8, 8}
		c.Steps.Backlog, c.Steps.MaxWait = 3, 120
	}
	return c
}

// resumable is a plan, with its planner's state after each document that made steps.
type resumable struct {
	config   runconfig.Config
	arrivals []plan.Arrival
	steps    []plan.Step
	marks    []mark
}

// mark is a planner's state after a number of steps.
type mark struct {
	steps int
	state []byte
}

const flushedAt = 700 // the document after which every plan is flushed

// resumed returns the configurations that are resumed at every step: every method, and splice with each of its
// options.
func resumed() map[string]runconfig.Config {
	all := map[string]runconfig.Config{}
	for _, method := range packonline.Methods() {
		all[method] = everyStep(method)
	}
	for name, change := range map[string]func(*packonline.Splice){
		"repo":            func(s *packonline.Splice) { s.Retriever = "repo" },
		"dense":           func(s *packonline.Splice) { s.Retriever = "dense" },
		"trim":            func(s *packonline.Splice) { s.Fill = "trim" },
		"shuffle":         func(s *packonline.Splice) { s.Order = "shuffle" },
		"k 3":             func(s *packonline.Splice) { s.K = 3 },
		"bonus, near":     func(s *packonline.Splice) { s.PathBonus, s.NearDuplicate = 50, 75 },
		"few postings":    func(s *packonline.Splice) { s.Postings = 9 },
		"dense and bonus": func(s *packonline.Splice) { s.Retriever, s.PathBonus = "dense", 50 },
	} {
		c := everyStep("splice")
		change(&c.Packing.Splice)
		if c.Packing.Splice.Fill == "trim" { // supports one row length
			c.Packing.Buckets, c.Steps.Table = []int{32}, nil
		}
		all["splice, "+name] = c
	}
	return all
}

func newResumable(t *testing.T, c runconfig.Config) *resumable {
	t.Helper()
	r := &resumable{config: c}
	p := r.planner(t)
	r.marks = []mark{{0, p.AppendState(nil)}}
	for i, n := range someLengths(17, 30_000) {
		if len(r.steps) >= everySteps {
			break
		}
		a := plan.Arrival{Sequence: uint64(i + 1), Length: n, ID: uint64(i + 1),
			PackingHints: plan.PackingHints{Hint: hintOf(uint64(i + 1))}}
		switch i % 20 {
		case 3:
			a.ID-- // a duplicate
		case 9:
			a.Skip = plan.SkipUndecodable
		}
		r.arrivals = append(r.arrivals, a)
		if steps := tell(t, p, a); len(steps) > 0 {
			r.steps = append(r.steps, steps...)
			r.marks = append(r.marks, mark{len(r.steps), p.AppendState(nil)})
		}
	}
	r.steps = append(r.steps, p.Seal()...)
	if len(r.steps) < everySteps {
		t.Fatalf("%d steps of %d documents", len(r.steps), len(r.arrivals))
	}
	return r
}

func (r *resumable) planner(t *testing.T) *planner.Planner {
	t.Helper()
	p, err := planner.New(plantest.Header(r.config))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tell adds a document, and flushes after document flushedAt.
func tell(t *testing.T, p *planner.Planner, a plan.Arrival) []plan.Step {
	t.Helper()
	steps, err := p.Add(a)
	if err != nil {
		t.Fatal(err)
	}
	if a.Sequence == flushedAt {
		steps = append(slices.Clone(steps), p.Flush()...)
	}
	return steps
}

// resume returns the steps of a planner that is restored at a mark, at least up to a step.
func (r *resumable) resume(t *testing.T, m mark, to int) (steps []plan.Step) {
	t.Helper()
	p := r.planner(t)
	if err := p.RestoreState(m.state); err != nil {
		t.Fatalf("behind %d steps: %v", m.steps, err)
	}
	tellHints(p, func(ref uint64) []plan.Part {
		return []plan.Part{{PackingHints: plan.PackingHints{Hint: hintOf(plan.RefSequence(ref))}}}
	})
	for _, a := range r.arrivals[p.Cursor().Last():] {
		if steps = append(steps, tell(t, p, a)...); m.steps+len(steps) >= to {
			return steps
		}
	}
	return append(steps, p.Seal()...)
}

// When a plan is resumed at any step, from the latest state before it, every packing method continues with the same
// rows. Ranks of each world size that divides the rows get all of them.
func TestResume_AtEveryStepGivesSameRows(t *testing.T) {
	each := testscale.Of(25, 1)
	for name, c := range resumed() {
		t.Run(name, func(t *testing.T) {
			r := newResumable(t, c)
			used := map[int32]bool{}
			at := 0
			for i, s := range r.steps {
				used[s.Bucket] = true
				shared(t, s)
				for at+1 < len(r.marks) && r.marks[at+1].steps <= i {
					at++
				}
				if i%each != 0 {
					continue
				}
				to := min(i+resumedFor, len(r.steps))
				if i%resumedLong == 0 {
					to = len(r.steps)
				}
				from := r.marks[at].steps
				if got := r.resume(t, r.marks[at], to); from+len(got) < to || !reflect.DeepEqual(got, r.steps[from:from+len(got)]) {
					t.Fatalf("resumed at step %d, from behind %d, the plan differs", i, from)
				}
			}
			if len(used) != len(r.config.Packing.Buckets) {
				t.Errorf("there are steps of %v only", used)
			}
		})
	}
}

// shared checks that, at every world size, the ranks together have the step's rows, each once and in order.
func shared(t *testing.T, s plan.Step) {
	t.Helper()
	for _, world := range worlds {
		var rows [][]packonline.Piece
		for rank := range world {
			first, n := state.RankID{Rank: rank, World: world}.RowRange(len(s.Rows))
			rows = append(rows, s.Rows[first:first+n]...)
		}
		if !reflect.DeepEqual(rows, s.Rows) {
			t.Fatalf("step %d: %d ranks got other rows", s.Index, world)
		}
	}
}

// A process that is killed at every step of a run is continued by the next one with the same tokens, at each world
// size.
func TestResume_KilledAtEveryStepGivesSameTokens(t *testing.T) {
	lengths := someLengths(18, 9000)
	reference := newFixture(everyStep("bucket"))
	reference.docs.lengths(lengths...)
	whole, _ := reference.start(t)
	if _, err := whole.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := read(t, whole, state.RankID{World: 1}, 0, 0)
	if len(want) < everySteps {
		t.Fatalf("%d steps of %d documents", len(want), len(lengths))
	}

	w := newFixture(everyStep("bucket"))
	w.options.CheckpointSteps = 5
	w.docs.lengths(lengths...)
	for i, n := range want {
		life := &mortal{left: 1 << 30}
		w.edges = func(e *backend.Backends) {
			e.Plan, e.Checkpoints = roomyLog{mortalLog{w.plan, life}}, mortalCheckpoints{w.checkpoints, life}
		}
		run, stop := w.start(t)
		if i == 0 {
			if _, err := run.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		world := worlds[i%len(worlds)]
		var rows [][]packonline.Piece
		var tokens []int32
		for rank := range world {
			b := read(t, run, state.RankID{Rank: rank, World: world}, uint64(i), 1)[0]
			rows, tokens = append(rows, b.Pieces...), append(tokens, tokensOf(t, b)...)
		}
		if !reflect.DeepEqual(rows, n.Pieces) || !slices.Equal(tokens, tokensOf(t, n)) {
			t.Fatalf("the process of step %d served %d ranks other rows", i, world)
		}
		life.kill()
		_ = stop()
	}
}

// roomyLog is a mortalLog with memLog's limit of records.
type roomyLog struct{ mortalLog }

func (l roomyLog) MaxRecord() int { return l.memLog.MaxRecord() }

// kill makes all later writes fail.
func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}
