package status_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/event"
	"loaderd/internal/status"
	"loaderd/internal/statustest"
	"loaderd/loader"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// fakeRun is a run whose values a test sets.
type fakeRun struct {
	stats   loader.Stats
	info    loader.Info
	verdict diagnosis.Verdict
	rates   state.Rates
	waits   bool
	mu      sync.Mutex // guards stats and ranks: several daemons watch one run
	ranks   *census.Census
}

func (f *fakeRun) Stats() loader.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

func (f *fakeRun) Verdict() diagnosis.Verdict { return f.verdict }
func (f *fakeRun) Rates() state.Rates         { return f.rates }
func (f *fakeRun) HasWaitingRank() bool       { return f.waits }

func (f *fakeRun) Info() loader.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.info
	info.Planned, info.Committed, info.Ended = f.stats.Planned, f.stats.Committed, f.stats.Ended
	return info
}

func (f *fakeRun) Ranks() census.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ranks == nil {
		return census.View{}
	}
	return f.ranks.View(time.Now())
}

func (f *fakeRun) change(do func(*census.Census)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f.ranks)
}

// present sets the consumed steps of a rank of job j. Its client reports its consumption.
func (f *fakeRun) present(rank, world int, step uint64) {
	id := census.ProcessID{Key: census.Key{Job: "j", World: world}, Rank: rank}
	f.change(func(c *census.Census) {
		c.Open(id, census.Client{Session: "s"}, 0, time.Now())
		c.RecordSent(id, step+5, time.Now())
		c.RecordReport(id, census.Report{Session: "s", Delivered: step, Waiting: true}, time.Now())
	})
}

// fakePlan is a plan log in memory.
type fakePlan struct {
	mu      sync.Mutex
	records [][]byte
}

func (p *fakePlan) add(entries ...planrecord.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		p.records = append(p.records, planrecord.Encode(e))
	}
}

func (p *fakePlan) Scan(_ context.Context, from uint64, f func(uint64, []byte) error) error {
	p.mu.Lock()
	records := p.records
	p.mu.Unlock()
	for at := from; at <= uint64(len(records)); at++ {
		if err := f(at, records[at-1]); err != nil {
			return err
		}
	}
	return nil
}

// bus carries heartbeats between the watches of a test. The sender receives its own heartbeats too.
type bus struct {
	mu    sync.Mutex
	hears map[int]func([]byte)
	next  int
}

func (b *bus) Publish(word []byte) error {
	b.mu.Lock()
	var all []func([]byte)
	for _, f := range b.hears {
		all = append(all, f)
	}
	b.mu.Unlock()
	for _, f := range all {
		f(word)
	}
	return nil
}

func (b *bus) Subscribe(f func([]byte)) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	id := b.next
	if b.hears == nil {
		b.hears = map[int]func([]byte){}
	}
	b.hears[id] = f
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.hears, id)
	}, nil
}

// daemon is a watch of a test.
type daemon struct {
	*status.Monitor
	log  *slog.Logger
	stop func()

	mu    sync.Mutex
	ranks []api.RankStatus
}

// serves sets the ranks that the daemon serves.
func (d *daemon) serves(ranks ...api.RankStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ranks = ranks
}

func (d *daemon) served() []api.RankStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ranks)
}

func start(name string, run *fakeRun, log *fakePlan, words status.Bus) *daemon {
	d := &daemon{}
	events := status.NewEvents(name)
	d.log = slog.New(events.Handler(slog.DiscardHandler))
	d.Monitor = status.New(status.Options{Run: run, Plan: log, LocalStreams: d.served, Bus: words, Events: events,
		Log:  d.log,
		Name: name,
		Flight: func() string {
			return "grpc://" + name + ":1"
		}, HTTP: "http://" + name + ":2", Bounds: status.Bounds{Window: 4, Ahead: 6, BufferBytes: 100, Method: "bfd"}})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		d.Serve(ctx)
	}()
	d.stop = func() { cancel(); <-served }
	return d
}

// checked returns the status of a daemon, and reports inconsistent values in it.
func (d *daemon) checked(t *testing.T) api.Status {
	t.Helper()
	s := d.Status()
	for _, wrong := range statustest.Contradictions(&s) {
		t.Errorf("%s: %s", s.Daemon, wrong)
	}
	return s
}

func rank(job string, rank, world int, step uint64, of string) api.RankStatus {
	return api.RankStatus{Job: job, Rank: rank, World: world, Sent: step, Bytes: 1000, Daemon: of}
}

// header returns the plan header of a run with one row length.
func header(sources ...plan.SourceBegin) planrecord.Header {
	c := runconfig.Config{Packing: packonline.Config{Buckets: []int{16}}, Steps: runconfig.Steps{Rows: 1}}
	return planrecord.Header{Run: "r", ID: strings.Repeat("0", 32), Config: c, Sources: sources}
}

// Every daemon shows the ranks, events and daemons of all, and the leader that the plan names.
func TestStatus_SameOnEveryDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words, log := &bus{}, &fakePlan{}
		log.add(header(), planrecord.Term{Daemon: "a"}, planrecord.Term{Daemon: "b"})
		resizes := []state.PendingResize{{Job: "j", World: 12, Step: 40, Since: time.Now(), Joined: []int{0, 1},
			JoinedCount: 2, Missing: []int{2, 3, 4, 5, 6, 7, 8, 9}, MissingCount: 10}}
		run := &fakeRun{stats: loader.Stats{Planned: 50, FirstUnrequested: 45, Committed: 30,
			JobStats: loader.JobStats{Resizes: resizes}},
			info: loader.Info{Run: "r", Commits: planrecord.Commits{"k": {Step: 30, Skipped: 4}}},
			verdict: diagnosis.Verdict{Health: diagnosis.Running,
				Sentence: "Running", Bottleneck: diagnosis.LimitRanks}, ranks: census.New()}
		a, b := start("a", run, log, words), start("b", run, log, words)
		a.serves(rank("j", 0, 3, 45, "a"), rank("j", 2, 3, 40, "a"))
		b.serves(rank("j", 1, 3, 44, "b"))
		a.log.Info("reader joined", event.ReaderJoined, "rank", 0, "world", 3)
		b.log.Warn("readers wait for a step", "step", 3, "do", "publish")
		time.Sleep(3 * time.Second)
		c := start("c", run, log, words) // it receives earlier events
		time.Sleep(3 * time.Second)
		for n, step := range []uint64{45, 44, 40} {
			run.present(n, 3, step)
		}
		time.Sleep(time.Second)
		for _, d := range []*daemon{a, b, c} {
			s := d.checked(t)
			if len(s.Ranks) != 3 || s.RankCount != 3 || s.Ranks[0].Lag != 0 || s.Ranks[1].Lag != 1 || s.Ranks[2].Lag != 5 ||
				s.Ranks[1].Daemon != "b" || s.Rates.Bytes != 3000 ||
				s.Ranks[2].State != "reading" || s.Ranks[2].Unit != api.UnitRead || s.Ranks[2].Consumed != 40 ||
				s.Ranks[2].Sent != 45 || s.Ranks[2].Buffered != 5 || *s.Sent != 45 || *s.Consumed != 40 {
				t.Errorf("%s: ranks %+v", s.Daemon, s.Ranks)
			}
			if len(s.Daemons) != 3 || s.Daemons[0].IsLeader || !s.Daemons[1].IsLeader || s.Daemons[1].Term != 3 ||
				s.Daemons[0].Ranks != 2 || s.Daemons[1].HTTP != "http://b:2" {
				t.Errorf("%s: daemons %+v", s.Daemon, s.Daemons)
			}
			if len(s.Events) != 2 || s.Events[0].Kind != "warning" || s.Events[0].Do != "publish" || s.Events[0].Daemon != "b" ||
				s.Events[1].Kind != "reader" || s.Events[1].Daemon != "a" {
				t.Errorf("%s: events %+v", s.Daemon, s.Events)
			}
			if len(s.Commits) != 1 || s.Commits[0] != (api.JobCommit{Job: "k", Step: 30, Skipped: 4}) {
				t.Errorf("committing jobs %+v", s.Commits)
			}
			want := `Ranks 2, 3, 4, 5, 6, 7, 8, 9 and 2 more of 12 of job "j" have not called resize at step 40 for 7 s; ` +
				"joined: ranks 0, 1"
			if len(s.Resizes) != 1 || s.Resizes[0].Job != "j" || s.Resizes[0].Sentence != want {
				t.Errorf("pending resizes %+v", s.Resizes)
			}
			flow := map[string]api.Stage{}
			for _, x := range s.Flow {
				flow[x.Name] = x
			}
			if x := flow[api.StageRead]; x.Value != 40 || x.Limit != 50 || !x.Bottleneck {
				t.Errorf("read %+v", x)
			}
			if x := flow[api.StageAhead]; x.Value != 5 || x.Limit != 6 || x.Bottleneck {
				t.Errorf("ahead %+v", x)
			}
			if x := flow[api.StageCommitted]; x.Value != 30 || x.Limit != 50 {
				t.Errorf("committed %+v", x)
			}
		}
		b.stop() // it announces its stop
		id := census.ProcessID{Key: census.Key{Job: "j", World: 3}, Rank: 1}
		run.change(func(c *census.Census) { c.Close(id, false, time.Now()) })
		for range 12 {
			time.Sleep(time.Second)
			for _, n := range []int{0, 2} {
				id.Rank = n
				run.change(func(c *census.Census) { c.RecordReport(id, census.Report{Session: "s", Delivered: 46}, time.Now()) })
			}
		}
		if s := a.checked(t); len(s.Daemons) != 2 || len(s.Ranks) != 3 || s.Ranks[1].State != "absent" ||
			s.Ranks[1].Consumed != 44 {
			t.Errorf("after b has left: %+v, %+v", s.Daemons, s.Ranks)
		} else if j := s.Jobs[0]; len(s.Jobs) != 1 || j.Present != 2 || len(j.Missing) != 1 || j.Missing[0] != 1 ||
			!j.Failing || !strings.HasPrefix(j.Sentence, `Rank 1 of 3 of job "j" has not consumed step 44 for `) {
			t.Errorf("after b has left: %+v", s.Jobs)
		}
		a.stop()
		c.stop()
	})
}

// A daemon without heartbeats is shown as silent, and is removed after heartbeatTimeout.
func TestStatus_DaemonWithoutHeartbeatTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words, log, run := &bus{}, &fakePlan{}, &fakeRun{info: loader.Info{Run: "r"}}
		a := start("a", run, log, words)
		defer a.stop()
		synctest.Wait()
		if err := words.Publish(
			[]byte(`{"name":"b","readers":1,"reading":[{"job":"j","rank":0,"world":1,"step":3}]}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if s := a.Status(); len(s.Daemons) != 2 || s.Daemons[1].SilentSeconds < 9 || s.Daemons[1].Ranks != 1 {
			t.Errorf("%+v", s.Daemons)
		}
		time.Sleep(30 * time.Second)
		if s := a.Status(); len(s.Daemons) != 1 {
			t.Errorf("%+v", s.Daemons)
		}
	})
}

// If a job has very many ranks, only those furthest behind are listed, but all are counted.
func TestStatus_NumberOfListedRanksIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := &fakeRun{info: loader.Info{Run: "r"}, stats: loader.Stats{Planned: 3000},
			verdict: diagnosis.Verdict{Health: diagnosis.Running, Sentence: "Running"}, ranks: census.New()}
		var ranks []api.RankStatus
		for i := range 1000 {
			run.present(i, 1000, uint64(2000-i))
			ranks = append(ranks, rank("j", i, 1000, uint64(2000-i), "a"))
		}
		a := start("a", run, &fakePlan{}, nil)
		defer a.stop()
		a.serves(ranks...)
		time.Sleep(2 * time.Second)
		s := a.checked(t)
		if len(s.Ranks) != api.MaxRanks || s.RankCount != 1000 || s.Ranks[0].Rank != 1000-api.MaxRanks ||
			s.Ranks[len(s.Ranks)-1].Lag != 999 {
			t.Errorf("%d of %d ranks, from %+v", len(s.Ranks), s.RankCount, s.Ranks[0])
		}
	})
}

// The history follows the plan, and logs a warning when it cannot.
func TestHistory_FollowsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakePlan{}
		log.add(header(plan.SourceBegin{Name: "docs", Start: 1}), planrecord.Term{Daemon: "a"})
		for i := range uint64(1000) {
			s := plan.Step{Index: i, Bucket: 16, Rows: [][]packonline.Piece{{{Doc: 1 + i, Length: 12}}},
				Cursor: plan.PositionAfter(1 + i)}
			if i%plan.SourcePositionInterval == 0 {
				s.SourcePositions = []mixture.SourcePosition{{Taken: 1 + i}}
			}
			r, err := planrecord.EncodeStep(&s, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			log.records = append(log.records, r...)
		}
		log.add(planrecord.Flush{Arrival: 1, Requester: "alice"}, planrecord.Term{Daemon: "b"}, planrecord.End{})
		a := start("a", &fakeRun{info: loader.Info{Run: "r"}}, log, nil)
		defer a.stop()
		time.Sleep(10 * time.Second)
		got := a.History()
		var kinds []string
		for _, m := range got.Marks {
			kinds = append(kinds, m.Kind)
		}
		if want := []string{"leader", "flush", "leader", "end"}; !slices.Equal(kinds, want) || got.Run != "r" ||
			got.KnownSteps != 1000 || got.Marks[1].Step != 1000 || got.Steps.Tokens[0] == 0 {
			t.Errorf("marks %+v, %d steps of %s", got.Marks, got.KnownSteps, got.Run)
		}
		if n := len(got.Times.At); n < 4 {
			t.Errorf("%d points of time", n)
		}
		log.mu.Lock()
		log.records = append(log.records, []byte("no record"))
		log.mu.Unlock()
		time.Sleep(3 * time.Second)
		if s := a.Status(); len(s.Events) != 1 || !strings.Contains(s.Events[0].Text, "history") {
			t.Errorf("events %+v", s.Events)
		}
	})
}

// Equal events within seconds are merged, warnings contain advice, other log lines are omitted, and the number of
// events is bounded.
func TestEvents_MergedAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start("a", &fakeRun{info: loader.Info{Run: "r"}}, &fakePlan{}, nil)
		defer a.stop()
		for i := range 64 {
			a.log.Info("reader joined", event.ReaderJoined, "rank", i, "world", 64, "from_step", 7)
		}
		a.log.Debug("reader joined", event.ReaderJoined)
		a.log.Info("progress", event.DaemonProgress, "steps", 3)
		a.log.With("part", "audit").Info("audit", event.Audit, "action", "ledger", "identity", "x")
		a.log.With("part", "audit").Info("audit", event.Audit, "action", "mix", "dry_run", true)
		time.Sleep(time.Second)
		a.log.With("part", "audit").Info("audit", event.Audit, "action", "seal", "identity", "alice", "role", "operate",
			"source", "web")
		a.log.With("run", "r").Warn("lost connection to NATS, reconnecting", event.ConnectionLost, "error", errors.New("EOF"))
		time.Sleep(2 * time.Second)
		e := a.Status().Events
		if len(e) != 3 {
			t.Fatalf("%+v", e)
		}
		if e[2].Kind != "reader" || e[2].Text != "Rank 0 of 64 joined at step 7 (and 63 like it)" {
			t.Errorf("%+v", e[2])
		}
		if e[1].Kind != "seal" || e[1].Text != `Source "web" was sealed by alice` {
			t.Errorf("%+v", e[1])
		}
		if e[0].Kind != "warning" || e[0].Text != "The connection to NATS is lost: EOF" || e[0].Do == "" {
			t.Errorf("%+v", e[0])
		}
		a.log.With("part", "audit").Info("audit", event.Audit, "action", "flush", "identity", "bob", "error",
			errors.New("FORBIDDEN"))
		a.log.Info("ready", event.DaemonReady, "nothing", "else")
		time.Sleep(2 * time.Second)
		const refused = "The action flush by bob was refused: FORBIDDEN"
		if e := a.Status().Events; e[1].Text != refused && e[0].Text != refused || e[0].Text != "ready, nothing else" &&
			e[1].Text != "ready, nothing else" {
			t.Errorf("%+v", e[:2])
		}
		a.log.With("part", "audit").Info("audit", event.Audit, "action", "seal", "identity", "anybody", "role", "operate")
		time.Sleep(2 * time.Second)
		if e := a.Status().Events; e[0].Text != "The run was sealed" {
			t.Errorf("%+v", e[0])
		}
		for i := range 150 {
			a.log.Error(fmt.Sprint("failure ", i), "more", strings.Repeat("x", 1000))
		}
		time.Sleep(2 * time.Second)
		if e := a.Status().Events; len(e) != api.MaxEvents || !strings.HasPrefix(e[0].Text, "failure 149") ||
			len(e[0].Text) > 500 {
			t.Errorf("%d events, the newest %.50q", len(e), e[0].Text)
		}
	})
}
