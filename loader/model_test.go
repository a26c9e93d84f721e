package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/follower"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// TestModel runs operations on a run in random order, including process kills in the middle of them. It compares what
// the run serves and retains with an undisturbed reference.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(t, rt, 1)
		defer m.stopAll()
		rt.Repeat(map[string]func(*rapid.T){
			"":               m.check,
			"publish":        m.publish,
			"read":           m.read,
			"report":         m.report,
			"join":           m.join,
			"read on":        m.readOn,
			"leave a reader": m.part,
			"commit":         m.commit,
			"leave":          m.leave,
			"flush":          m.flush,
			"seal":           m.seal,
			"release":        m.release,
			"checkpoint":     m.checkpoint,
			"spoil":          m.spoil,
			"restart":        m.restart,
			"kill":           m.kill,
			"light the fuse": m.fuse,
			"fork":           m.fork,
			"audit":          m.audit,
			"mix":            m.mix,
			"filter":         m.filter,
			"schedule":       m.schedule,
			"seal a source":  m.sealSource,
			"end a stream":   m.endStream,
		})
	})
}

// machine is a run and the state that the model expects of it.
type machine struct {
	t             *testing.T
	docs          shelf                                 // of all runs, by source
	lowWatermarks map[string]map[string]runLowWatermark // by source and run
	several       bool                                  // messages may hold several documents
	runs          int

	*process              // the process under test
	crew     []*process   // all processes of the run
	cluster  *testCluster // nil if the run has one process
	name     string
	fixture  *fixture
	spoilt   map[string][]byte    // the damaged data of each spoiled checkpoint
	commits  []planrecord.Commits // possible committing jobs: two after a kill during a record
	most     uint64               // all steps below were committed by all committing jobs at some time
	ref      *reference           // nil until the run has begun
	answers  map[int]uint64       // steps in the responses to controls, by their order in the log
	past     history              // of the runs that it was forked from
	parent   *reference           // of the run that it was forked from last
}

// process is a process that serves the run.
type process struct {
	number  int // index in the crew
	lives   int
	life    *mortal
	killed  *atomic.Bool
	run     *loader.Run
	cancel  context.CancelFunc
	served  chan error
	readers map[*follower.Reader]uint64 // position of each reader
}

// newMachine returns a machine with a number of processes that serve the run.
func newMachine(t *testing.T, rt *rapid.T, processes int) *machine {
	m := &machine{t: t, docs: shelf{}, lowWatermarks: map[string]map[string]runLowWatermark{},
		past: history{seen: map[uint64][]int{}, had: map[uint64][]int{}, used: map[member]int{}}}
	for n := range processes {
		m.crew = append(m.crew, &process{number: n})
	}
	m.process = m.crew[0]
	c := configs(rapid.SampledFrom(packonline.Methods()).Draw(rt, "method")).Draw(rt, "configuration")
	m.several = c.Documents.CanHoldMultiple()
	if rapid.IntRange(0, 3).Draw(rt, "filters") == 0 {
		c.Documents.Where = drawFilter(rt)
	}
	if c.Sources = plain(); rapid.Bool().Draw(rt, "several sources") {
		drawMixture(rt, &c, processes)
	}
	for i, name := range sourcesOfModel {
		m.docs[name], m.lowWatermarks[name] = newDocs(), map[string]runLowWatermark{}
		m.docs[name].base, m.docs[name].stream.Name = int32(i)*1e7, "DOCS"+name
	}
	m.publish(rt)
	m.adopt(rt, newFixture(c))
	m.startAll(rt)
	return m
}

// adopt makes a fixture the one under test.
func (m *machine) adopt(rt *rapid.T, w *fixture) {
	w.options.CacheBytes, w.options.StallTimeout = 0, 2*time.Second // every row fetches its documents
	w.options.CheckpointSteps = rapid.IntRange(0, 4).Draw(rt, "checkpoint every")
	w.options.Ahead = rapid.IntRange(1, 5).Draw(rt, "ahead")
	m.runs++
	m.fixture, m.name, m.ref, m.most, m.answers = w, fmt.Sprint("run ", m.runs), nil, 0, map[int]uint64{}
	m.commits, m.spoilt = []planrecord.Commits{{}}, map[string][]byte{}
	if len(m.crew) > 1 {
		m.cluster, w.options.StallTimeout = newTestCluster(), 10*time.Second // longer than the detection of a killed process
	}
}

func (m *machine) startAll(rt *rapid.T) {
	for _, m.process = range m.crew {
		m.start(rt)
	}
}

// stopAll stops all processes and returns their errors except kills.
func (m *machine) stopAll() error {
	var failed error
	for _, m.process = range m.crew {
		if m.run == nil {
			continue
		}
		if err := m.stop(); !errors.Is(err, errKilled) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// start starts a new process. It returns when the log is replayed.
func (m *machine) start(rt *rapid.T) {
	m.life, m.readers = &mortal{left: 1 << 30}, map[*follower.Reader]uint64{}
	m.lives++
	m.killed = &atomic.Bool{}
	m.fixture.edges = func(e *backend.Backends) {
		e.Sources = strictShelf{m.docs, m.lowWatermarksOf}
		e.Plan, e.Checkpoints = roomyLog{mortalLog{m.fixture.plan, m.life}}, mortalCheckpoints{m.fixture.checkpoints, m.life}
		if m.cluster != nil {
			e.Elector, e.Bus, e.Daemon = m.cluster, mortalBus{m.cluster, m.killed}, m.daemon()
		}
	}
	var err error
	if m.run, err = m.fixture.open(m.t); err != nil {
		rt.Fatalf("open: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.served = cancel, make(chan error, 1)
	go func(p process) { p.served <- p.run.Serve(ctx) }(*m.process)
	for m.run.Stats().Replaying {
		select {
		case err := <-m.served:
			m.served <- err
			rt.Fatalf("serve: %v", err)
		case <-time.After(50 * time.Microsecond):
		}
	}
	for m.ignorant() {
		time.Sleep(10 * time.Millisecond)
	}
	m.settle(rt)
	have := m.run.Info().Commits
	if !slices.ContainsFunc(m.commits, func(k planrecord.Commits) bool { return maps.Equal(k, have) }) {
		rt.Fatalf("the committing jobs are %v, want %v", have, m.commits)
	}
	m.commits, m.most = []planrecord.Commits{have}, max(m.most, have.Committed())
}

func (m *machine) stop() error {
	m.cancel()
	err := <-m.served
	m.served <- err
	return err
}

// died reports whether an operation failed because its process was killed, and then starts the next process. Any
// other error fails the test.
func (m *machine) died(rt *rapid.T, err error) bool {
	if err == nil {
		return false
	}
	if !errors.Is(err, errKilled) {
		rt.Fatal(err)
	}
	m.kill(rt)
	return true
}

func (m *machine) restart(rt *rapid.T) {
	if err := m.stop(); err != nil && !errors.Is(err, errKilled) {
		rt.Fatalf("stop: %v", err)
	}
	m.start(rt)
}

func (m *machine) kill(rt *rapid.T) {
	m.life.kill()
	m.killed.Store(true)
	_ = m.stop()
	m.start(rt)
}

// fuse kills the process at one of its next writes.
func (m *machine) fuse(rt *rapid.T) {
	left, stored := rapid.IntRange(0, 4).Draw(rt, "stores left"), rapid.Bool().Draw(rt, "the last one takes effect")
	m.life.mu.Lock()
	defer m.life.mu.Unlock()
	if !m.life.dead {
		m.life.left, m.life.stored = left, stored
	}
}

func (m *machine) publish(rt *rapid.T) {
	open := slices.DeleteFunc(slices.Sorted(maps.Keys(m.docs)), func(name string) bool {
		return m.docs[name].state().Sealed
	})
	if len(open) == 0 {
		return
	}
	docs := m.docs[rapid.SampledFrom(open).Draw(rt, "source")]
	for range rapid.IntRange(1, 30).Draw(rt, "documents") {
		d := document.Document{ID: uint64(rapid.IntRange(0, 40).Draw(rt, "id"))}
		if m.several && rapid.IntRange(0, 3).Draw(rt, "several") == 0 {
			docs.publish(severalOf(rt, docs))
			continue
		}
		if rapid.IntRange(0, 9).Draw(rt, "skip") == 0 {
			d.Skip = rapid.SampledFrom([]plan.Skip{plan.SkipEmpty, plan.SkipUndecodable}).Draw(rt, "reason")
		} else {
			d.Tokens = docs.tokens(docs.state().Last+1, rapid.IntRange(1, 60).Draw(rt, "tokens"))
		}
		docs.publish(d)
	}
}

// severalOf draws a message of several documents, some of them parts of a split document. Its losses and weights are
// those of one document.
func severalOf(rt *rapid.T, docs *memDocs) document.Document {
	var d document.Document
	sequence := docs.state().Last + 1
	d.Loss = plantest.Loss(sequence, 5*40)
	for i := range rapid.IntRange(1, 5).Draw(rt, "documents of the message") {
		x := plan.Part{ID: uint64(rapid.IntRange(0, 40).Draw(rt, "id")), Length: rapid.IntRange(1, 40).Draw(rt, "tokens"),
			PackingHints: plan.PackingHints{Hint: hintOf(sequence + uint64(i))}}
		if i > 0 && rapid.Bool().Draw(rt, "a piece of the one before") {
			x.ID, x.SplitIndex = d.Parts[i-1].ID, d.Parts[i-1].SplitIndex+1
		}
		x.Loss = plan.NewLossRuns(d.Loss.AppendRuns(nil, int32(d.Len()), int32(d.Len()+x.Length)))
		if !x.Loss.HasLoss() {
			x.Skip = plan.SkipMasked
		}
		d.Docs = append(d.Docs, document.Doc{Start: int32(d.Len()), Weight: weightOf(sequence)})
		d.Tokens = append(d.Tokens, make([]int32, x.Length)...)
		d.Parts = append(d.Parts, x)
	}
	d.Tokens, d.Loss = docs.tokens(sequence, d.Len()), plan.NewLossRuns(d.Loss.AppendRuns(nil, 0, int32(d.Len())))
	return d
}

// place draws a rank and a world size that divides every step.
func (m *machine) place(rt *rapid.T) state.RankID {
	fits := slices.DeleteFunc([]int{1, 2, 3, 4, 5}, func(n int) bool {
		return follower.CheckWorldSize(m.run.Info().Schedule, 0, n) != nil
	})
	world := rapid.SampledFrom(fits).Draw(rt, "world")
	p := state.RankID{World: world, Rank: rapid.IntRange(0, world-1).Draw(rt, "rank")}
	if m.cluster != nil {
		p.Job = rapid.SampledFrom([]string{"", "evaluator"}).Draw(rt, "job")
	}
	return p
}

// read reads some of the steps that are not purged.
func (m *machine) read(rt *rapid.T) {
	info := m.run.Info()
	from := uint64(rapid.IntRange(int(info.Oldest), int(info.Planned)).Draw(rt, "from"))
	r, err := m.run.JoinAs(context.Background(), m.place(rt), from,
		state.Client{Session: rapid.SampledFrom([]string{"", "s"}).Draw(rt, "session"), Delivered: from})
	if m.released(err, from) {
		return
	}
	if err != nil {
		rt.Fatalf("join at step %d, the oldest is %d, %d are planned: %v", from, info.Oldest, info.Planned, err)
	}
	defer r.Close()
	m.next(rt, r, from)
}

// next reads some of the possible steps, and returns the position after them.
func (m *machine) next(rt *rapid.T, r *follower.Reader, at uint64) uint64 {
	place := m.place(rt)
	possible, ended := m.possible(rt)
	for range rapid.IntRange(1, 8).Draw(rt, "steps") {
		if at == possible && !ended || at >= max(m.run.Info().Planned, m.ahead()) {
			break
		}
		s, err := r.Next(m.t.Context())
		if at == possible && isEOF(err) || m.died(rt, err) {
			break
		}
		first, rows := place.RowRange(len(s.Rows))
		b, err := m.run.Assemble(m.t.Context(), s, first, rows)
		if m.released(err, at) {
			break
		}
		if err != nil {
			rt.Fatalf("assemble step %d: %v", at, err)
		}
		m.follow(rt)
		if at == possible && m.fixture.config.Mix.OnDry == mixture.DryShare { // a source was paused meanwhile
			possible, ended = m.possible(rt)
		}
		if at == possible || !reflect.DeepEqual(*s, m.ref.steps[at]) ||
			!reflect.DeepEqual(b.Pieces, s.Rows[first:first+rows]) {
			rt.Fatalf("step %d differs from the reference's", at)
		}
		checkRows(m.t, b, func(x packonline.Piece) []int32 {
			return m.document(x.Doc).Tokens[x.Start : x.Start+x.Length]
		}, s.Repeats...)
		at++
	}
	return at
}

// ahead returns the step that is not planned until the slowest reader requests more.
func (m *machine) ahead() uint64 {
	var slowest []uint64
	for _, p := range m.crew {
		slowest = slices.AppendSeq(slowest, maps.Values(p.readers))
	}
	slices.Sort(slowest)
	if len(slowest) == 0 {
		return math.MaxUint64
	}
	if m.cluster != nil { // another daemon's reader counts as requesting the step it got last
		return slowest[0] + uint64(m.fixture.options.Ahead)
	}
	return slowest[0] + 1 + uint64(m.fixture.options.Ahead)
}

// report sends a client's report, true or not. No step may depend on it.
func (m *machine) report(rt *rapid.T) {
	m.run.RecordConsumption(m.place(rt), state.Consumption{Session: "s",
		Delivered:   rapid.Uint64Range(0, 60).Draw(rt, "taken"),
		Waiting:     rapid.Bool().Draw(rt, "waiting"),
		SinceChange: time.Duration(rapid.IntRange(0, 200).Draw(rt, "still")) * time.Second,
		Left:        rapid.Bool().Draw(rt, "left")})
}

// join opens a reader that may request its next steps at any time.
func (m *machine) join(rt *rapid.T) {
	info := m.run.Info()
	if len(m.readers) == 3 {
		return
	}
	from := uint64(rapid.IntRange(int(max(info.Oldest, info.Committed)), int(info.Planned)).Draw(rt, "from"))
	r, err := m.run.Join(m.place(rt), from)
	if m.released(err, from) {
		return
	}
	if err != nil {
		rt.Fatalf("join at step %d of %+v: %v", from, info, err)
	}
	m.readers[r] = from
}

func (m *machine) reader(rt *rapid.T) *follower.Reader {
	if len(m.readers) == 0 {
		return nil
	}
	steps := map[uint64]*follower.Reader{}
	for r, step := range m.readers {
		steps[step] = r
	}
	return steps[rapid.SampledFrom(slices.Sorted(maps.Keys(steps))).Draw(rt, "the reader of step")]
}

func (m *machine) readOn(rt *rapid.T) {
	if r := m.reader(rt); r != nil {
		at := m.next(rt, r, m.readers[r])
		if _, lives := m.readers[r]; lives {
			m.readers[r] = at
		}
	}
}

func (m *machine) part(rt *rapid.T) {
	if r := m.reader(rt); r != nil {
		r.Close()
		delete(m.readers, r)
	}
}

// job draws the name of a job.
func job(rt *rapid.T) string {
	return rapid.SampledFrom([]string{planrecord.DefaultJob, "evaluator", "archive"}).Draw(rt, "job")
}

func (m *machine) commit(rt *rapid.T) {
	if m.blind() {
		return
	}
	planned := m.run.Info().Planned
	name, step := job(rt), uint64(rapid.IntRange(0, int(planned)).Draw(rt, "step"))
	if rapid.IntRange(0, 9).Draw(rt, "beyond the plan") == 0 {
		if _, err := m.run.Commit(m.t.Context(), name, planned+1000); reason(err) != fault.InvalidTicket && !m.died(rt, err) {
			rt.Fatalf("commit beyond the plan of %d steps: %v", planned, err)
		}
		return
	}
	before := m.commits[0]
	last, known := before[name]
	least := max(step, last.Step)
	most := least
	if !known { // it starts at the others' step, or earlier if a job of its name retains documents
		most = max(step, before.Committed())
	}
	for at := least; at <= most; at++ {
		after := maps.Clone(before)
		after[name] = planrecord.JobCommit{Step: at}
		m.commits = append(m.commits, after)
	}
	committed, err := m.run.Commit(m.t.Context(), name, step)
	if m.died(rt, err) {
		return
	}
	m.commits = m.commits[1:]
	for m.ignorant() {
		time.Sleep(10 * time.Millisecond)
	}
	m.settle(rt) // a killed process restarts and finds one of them
	have := m.run.Info().Commits
	if !slices.ContainsFunc(m.commits, func(k planrecord.Commits) bool { return maps.Equal(k, have) }) {
		rt.Fatalf("after a commit of step %d for %s the committing jobs are %v, before they were %v", step, name,
			have, before)
	}
	m.commits = []planrecord.Commits{have}
	m.kept(rt, committed)
}

func (m *machine) leave(rt *rapid.T) {
	if m.blind() {
		return
	}
	name := job(rt)
	after := maps.Clone(m.commits[0])
	delete(after, name)
	m.commits = append(m.commits, after)
	committed, err := m.run.Leave(m.t.Context(), name)
	if m.died(rt, err) {
		return
	}
	m.commits = m.commits[1:]
	m.kept(rt, committed)
}

// kept checks the committed step in a response to a job.
func (m *machine) kept(rt *rapid.T, committed uint64) {
	var steps []uint64
	for _, c := range m.commits[0] {
		steps = append(steps, c.Step)
	}
	var want uint64
	if len(steps) > 0 {
		want = slices.Min(steps)
	}
	for m.ignorant() {
		time.Sleep(10 * time.Millisecond)
	}
	m.settle(rt)
	if info := m.run.Info(); committed != want || info.Committed != want || !maps.Equal(info.Commits, m.commits[0]) {
		rt.Fatalf("committed is %d by the answer and %d by the run, which has %v, want %d of %v", committed, info.Committed,
			info.Commits, want, m.commits[0])
	}
	m.most = max(m.most, want)
}

func (m *machine) flush(rt *rapid.T) {
	at, err := m.run.Flush(m.t.Context())
	if reason(err) == fault.InvalidTicket && m.sealed(rt) || m.died(rt, err) {
		return
	}
	m.recorded(rt, "flush", at)
}

// schedule changes the sizes of later steps.
func (m *machine) schedule(rt *rapid.T) {
	if m.blind() {
		return
	}
	var phases []runconfig.Phase
	from := int64(0) // the first phase begins now
	if rapid.Bool().Draw(rt, "later") {
		from = int64(m.run.Info().Planned) + rapid.Int64Range(1, 30).Draw(rt, "from")
	}
	for range rapid.IntRange(1, 2).Draw(rt, "phases") {
		p := runconfig.Phase{FromStep: from, RampSteps: rapid.Int64Range(0, 3).Draw(rt, "ramp"),
			Rows: rapid.IntRange(1, 6).Draw(rt, "rows")}
		if rapid.IntRange(0, 2).Draw(rt, "other row lengths") == 0 {
			p.RampSteps, p.Buckets = 0, []int{4 * rapid.IntRange(2, 12).Draw(rt, "row length")}
		}
		phases = append(phases, p)
		from = max(from, int64(m.run.Info().Planned)) + p.RampSteps + rapid.Int64Range(1, 30).Draw(rt, "until the next phase")
	}
	step, err := m.run.ChangeSchedule(m.t.Context(), state.ScheduleRequest{Phases: phases})
	if reason(err) == fault.InvalidTicket || m.died(rt, err) {
		return // the phases are impossible now, or the ranks cannot share the rows
	}
	m.follow(rt)
	last := m.ref.known[len(m.ref.known)-1]
	if c, ok := last.(planrecord.Schedule); !ok || !reflect.DeepEqual(c.Phases, phases) {
		rt.Fatalf("%+v, from step %d, is not the last of %+v", phases, step, m.ref.known)
	}
}

func (m *machine) seal(rt *rapid.T) {
	if rapid.IntRange(0, 4).Draw(rt, "really") > 0 {
		return
	}
	if at, err := m.run.Seal(m.t.Context()); !m.died(rt, err) {
		m.recorded(rt, "seal", at)
	}
}

func (m *machine) release(rt *rapid.T) {
	err := m.run.Release(m.t.Context())
	// The process was killed, or another daemon leads.
	if err != nil && !errors.Is(err, fault.ErrNoLeader) && !(m.cluster != nil && errors.Is(err, fault.ErrLeadershipLost)) {
		rt.Fatal(err)
	}
}

func (m *machine) checkpoint(rt *rapid.T) {
	_, err := m.run.Checkpoint(m.t.Context())
	if reason(err) == fault.InvalidTicket && m.sealed(rt) {
		return
	}
	if reason(err) == fault.PlanLogDown && m.lost() { // the leader was killed during it
		return
	}
	m.died(rt, err)
}

// spoil damages the newest checkpoint, unless it is the last valid one.
func (m *machine) spoil(rt *rapid.T) {
	c := m.fixture.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	good := slices.DeleteFunc(slices.Sorted(maps.Keys(c.data)), func(name string) bool {
		return bytes.Equal(c.data[name], m.spoilt[name])
	})
	if len(good) < 2 {
		return
	}
	name := good[len(good)-1]
	data := slices.Clone(c.data[name])
	at := rapid.IntRange(0, len(data)-1).Draw(rt, "at")
	if rapid.Bool().Draw(rt, "cut short") {
		data = data[:at]
	} else {
		data[at] ^= 0x10
	}
	c.data[name], m.spoilt[name] = data, data
}

// fork forks the run at a step, and continues the test with the fork.
func (m *machine) fork(rt *rapid.T) {
	if m.runs == 4 || m.mixed() {
		return
	}
	docs := m.docs[plainSource]
	step := rapid.IntRange(0, int(m.run.Info().Planned)).Draw(rt, "step")
	m.follow(rt)
	method := rapid.SampledFrom(packonline.Methods()).Draw(rt, "method")
	next := newFixture(configs(method).Draw(rt, "configuration"))
	next.config.Documents, next.config.Sources = m.fixture.config.Documents, plain()
	from := backend.Backends{Sources: strictShelf{m.docs, m.lowWatermarksOf}, Plan: m.fixture.plan,
		Checkpoints: m.fixture.checkpoints}
	h, _, err := maintenance.Fork(m.t.Context(), from, uint64(step), "next", next.config)
	if first := docs.state().First; reason(err) == fault.DocumentLost && first > 1 {
		return // documents needed to replay the step are purged
	} else if err == nil && h.Infos()[0].First() < first && uint64(step) < m.most {
		return // documents needed by the fork are purged
	}
	if schedule := m.run.Info().Schedule; err != nil && schedule.ChangesBuckets() && strings.Contains(err.Error(),
		"steps.schedule") {
		return // row lengths of a control, and the packing of the fork cannot have them
	}
	if err != nil {
		rt.Fatalf("fork at step %d: %v", step, err)
	}
	a, err := planner.NewApplier(h)
	if err != nil {
		rt.Fatal(err)
	}
	m.share(rt, step)
	for uint64(len(m.ref.arrivals)) < a.Planner.Clock() && m.advance(rt, m.ref) {
	}
	settled := func() bool { // drops of a flush or the end hold for the fork
		p := m.ref.applier.Pending
		return !h.Parent.Sources[0].Sealed && (len(p) == 0 || p[0].EffectiveAfter() > a.Planner.Clock())
	}
	for !settled() && m.advance(rt, m.ref) {
	}
	if err := m.stopAll(); err != nil {
		rt.Fatalf("stop: %v", err)
	}
	parent := m.name
	m.past.add(rt, m, step)
	m.parent = m.ref
	m.adopt(rt, next)
	to := backend.Backends{Sources: strictShelf{m.docs, m.lowWatermarksOf}, Plan: next.plan, Checkpoints: next.checkpoints}
	if err := maintenance.CreateFork(m.t.Context(), to, h); err != nil {
		rt.Fatal(err)
	}
	if rapid.Bool().Draw(rt, "the parent goes") {
		delete(m.lowWatermarks[plainSource], parent)
	}
	m.startAll(rt)
}
