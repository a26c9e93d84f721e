package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/leader"
	"loaderd/loader/internal/ranks"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// listener returns the coordinator of a daemon that follows.
func listener() *Coordinator {
	o := backend.Options{Ahead: 4}
	header := planrecord.Header{Config: runconfig.Config{}}
	v := planview.New(termLog{}, header.Config, o)
	v.ApplyOpened(planview.OpenedPlan{Header: header, Steps: 10, Tail: 1, Validator: header.Validator(),
		Commits: planrecord.Commits{"trainer": {Step: 6}}})
	if err := v.Follow(context.Background()); err != nil {
		panic(err)
	}
	e := backend.Backends{Daemon: "me", Log: slog.New(slog.DiscardHandler)}
	s := leader.Setup{Name: "run", Options: o, Backends: e, Streams: planview.NewStreams(e, v), Log: e.Log, View: v}
	return New(s, ranks.New(), nil)
}

// termLog is a plan log whose second record begins the term of a daemon.
type termLog struct{ backend.PlanLog }

// Scan implements backend.PlanLog.
func (termLog) Scan(_ context.Context, _ uint64, f func(position uint64, record []byte) error) error {
	return f(2, planrecord.Encode(planrecord.Term{Daemon: "host/7/a"}))
}

func said(t testing.TB, w heartbeat) []byte {
	t.Helper()
	b, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A heartbeat of an unknown daemon cannot drive the plan ahead without bounds, stop it, or make readable steps
// unreadable.
func TestHeartbeats_UnknownDaemonIsBounded(t *testing.T) {
	o := listener()
	far := state.Demand{Jobs: map[string]state.JobDemand{"a": {World: 1, Step: 1<<64 - 1, Sent: 1<<64 - 1}},
		Furthest: 1<<64 - 1}
	o.heartbeats.receive(said(t, heartbeat{Daemon: "stranger", Demand: &far}))
	if d := o.TotalDemand(); d.FirstUnrequested() > 10+2*4+3 || d.Furthest > 10+2*4+2 || d.FirstUnrequested() == 0 ||
		d.Jobs["a"].Sent > 10+2*4+2 {
		t.Errorf("a stranger wants %+v of a plan of 10 steps", d)
	}
	o.heartbeats.receive(said(t, heartbeat{Daemon: "stranger",
		Report:       &state.Report{Steps: 1 << 40, FirstUnrequested: 1 << 40},
		PlanPosition: 1 << 40, OldestStep: 1 << 40}))
	if r := o.Report(); !r.LeaderUnknown || r.Steps != 0 {
		t.Errorf("a stranger's report is taken for the leader's: %+v", r)
	}
	o.heartbeats.receive(said(t, heartbeat{Daemon: "host/7/a", Report: &state.Report{Steps: 11}, OldestStep: 1 << 40}))
	// an unknown daemon may be the next leader, so its heartbeat can only make readers wait
	if r := o.Report(); !r.LeaderUnknown || r.Steps != 11 {
		t.Errorf("the report of the daemon whose term it is, beside a stranger's: %+v", r)
	}
	o.remote.unconfirmed.received = time.Now().Add(-state.HeartbeatTimeout)
	if r := o.Report(); r.LeaderUnknown || r.Steps != 11 {
		t.Errorf("the report of the daemon whose term it is: %+v", r)
	}
	if now := o.setup.View.Snapshot(); now.Oldest != 0 {
		t.Errorf("steps before %d cannot be read, by a word alone", now.Oldest)
	}
	for i := range 2 * maxDaemons {
		o.heartbeats.receive(said(t, heartbeat{Daemon: strings.Repeat("x", 1+i%200) + string(rune('a'+i/200%26)) +
			string(rune('a'+i/5200))}))
	}
	if o.demands.peerCount() > maxDaemons {
		t.Errorf("%d daemons are remembered", o.demands.peerCount())
	}
}

// Requests for records that only leaders write are refused.
func TestRequest_RefusesRecordsOnlyLeadersWrite(t *testing.T) {
	for _, e := range []planrecord.Entry{planrecord.Header{Run: "x"}, planrecord.End{Steps: 3},
		planrecord.Term{Daemon: "x"}, planrecord.Foreign{Position: 3},
		planrecord.StepPart{}} {
		_, err := Request{Record: planrecord.Encode(e)}.decodeEntry()
		var refused *fault.Error
		if !errors.As(err, &refused) || refused.Reason != fault.InvalidTicket {
			t.Errorf("%T: %v", e, err)
		}
	}
	if _, err := (Request{Record: []byte("rubbish")}).decodeEntry(); err == nil {
		t.Error("rubbish is taken for a record")
	}
	for _, e := range []planrecord.Entry{planrecord.Seal{Requester: "a"}, planrecord.Flush{},
		planrecord.Commit{Job: "a"},
		planrecord.Leave{Job: "a"}} {
		if have, err := (Request{Record: planrecord.Encode(e)}).decodeEntry(); err != nil || have != e {
			t.Errorf("%v: %v, %v", e, have, err)
		}
	}
}

func FuzzHeartbeats(f *testing.F) {
	none, some := state.NewDemand(), state.Demand{Jobs: map[string]state.JobDemand{"j": {World: 2, Step: 7, RetainFrom: 3,
		Sent: 9}, "gone": {RetainFrom: 1, Sent: 2}, state.UnnamedJob: {RetainFrom: 1}}}
	f.Add(said(f, heartbeat{Daemon: "a", Address: "grpc://a:1", Demand: &none,
		Report: &state.Report{Source: &document.SourceStatus{}}, PlanPosition: 3, OldestStep: 1}))
	f.Add(said(f, heartbeat{Daemon: "host/7/a", Report: &state.Report{}, Demand: &some}))
	f.Add(
		[]byte(
			`{"daemon":"a","roll":{"jobs":[{"job":"j","world":2,"ranks":[[1,0,1,1,0,35,64,100,20000,300000]]}],"page":1,"pages":3}}`))
	f.Add([]byte(`{"daemon":"a","left":true}`))
	f.Add(
		[]byte(
			`{"daemon":"a","roll":{"jobs":[{"job":"j","world":2,"ranks":[[1,0,1,1,0,35,64,100,20000,300000],[0,1,31,0,7,9,9,9007199254740991,0,0]]}]}}`))
	f.Add([]byte(`{"daemon":"a","roll":{"jobs":[{"job":"j","world":1048576,"ranks":[[1]]}],"partial":true}}`))
	f.Add([]byte(`{"daemon":"\u0000"}`))
	f.Add(
		[]byte(
			`{"daemon":"host/7/a","sources":{"round":3,"page":0,"figures":[{"name":"a"}],"status":{"a":{}},"streams":[{"name":"DOCS"}],"open":["a"]}}`))
	f.Add([]byte(`{"daemon":"host/7/a","lead":{"pages":1,"round":3,"length":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := listener()
		o.heartbeats.receive(b)
		d := o.TotalDemand()
		if d.FirstUnrequested() > 21 || d.SentSteps(func(string) bool {
			return true
		}) > 20 || o.setup.View.Snapshot().Oldest > 0 {
			t.Fatalf("it wants %+v", d)
		}
		b, err := heartbeat{Daemon: "me", Demand: &d}.encode(nil)
		if err != nil || len(b) > maxHeartbeatBytes {
			t.Fatalf("a word of %d bytes: %v", len(b), err)
		}
		_, _ = o.Addresses()
		_ = o.Report()
		for _, job := range o.heartbeats.ranks.Evaluate(nil, nil, nil).Jobs {
			if len(job.Missing) > job.World || job.Present > job.World || job.MinConsumed > job.MaxConsumed {
				t.Fatalf("%+v", job)
			}
		}
	})
}

// A daemon that has many jobs with long names sends heartbeats of bounded size. They retain what the planner uses:
// the furthest reader, the first needed step, and the first retained step.
func TestHeartbeat_IsBoundedInBytes(t *testing.T) {
	d := state.NewDemand()
	for i := range uint64(512) {
		x := state.JobDemand{RetainFrom: 1000 + i, Sent: 1<<52 + i}
		if i%2 == 0 {
			x.Rank, x.World, x.Step = 1<<20-2, 1<<20, 1<<52+i
		}
		d.Jobs[fmt.Sprintf("%04d%s", (i*7)%512, strings.Repeat("<", 60))] = x
	}
	d.Needed, d.Furthest = 900, 1<<52+600
	committed := planrecord.Commits{}
	for job, x := range d.Jobs {
		if x.RetainFrom < 1003 {
			committed[job] = planrecord.JobCommit{Step: x.RetainFrom}
		}
	}
	for name, w := range map[string]heartbeat{"follower": {Daemon: "a", Demand: &d},
		"leader": {Daemon: "a", Demand: &d, Report: &state.Report{StreamProblem: strings.Repeat("x", 9000)}}} {
		b, err := w.encode(committed)
		if err != nil || len(b) > 64<<10 || len(b) < 50<<10 {
			t.Fatalf("%s: a word of %d bytes: %v", name, len(b), err)
		}
		got, err := decodeHeartbeat(b)
		if err != nil {
			t.Fatal(err)
		}
		have := *got.Demand
		if have.Needed != d.Needed || have.Furthest != d.Furthest || *have.LeadingReader() != *d.LeadingReader() ||
			have.FirstUnrequested() != d.FirstUnrequested() {
			t.Errorf("%s: the readers want %d, %d and %+v, of %d, %d and %+v", name, have.Needed, have.Furthest,
				have.LeadingReader(),
				d.Needed, d.Furthest, d.LeadingReader())
		}
		slowest := slices.MinFunc(slices.Collect(maps.Values(d.Jobs)), func(x, y state.JobDemand) int {
			return cmp.Or(-cmp.Compare(min(1, x.World), min(1, y.World)), cmp.Compare(x.Step, y.Step))
		})
		if !slices.Contains(slices.Collect(maps.Values(have.Jobs)), slowest) {
			t.Errorf("%s: the slowest reader, %+v, is not named", name, slowest)
		}
		if _, step := have.RetainingJob(committed); step != 1003 {
			t.Errorf("%s: documents are retained from step %d on, want 1003", name, step)
		}
	}
	small := state.NewDemand()
	small.Jobs["a"] = state.JobDemand{World: 1, Step: 3, RetainFrom: 1, Sent: 3}
	if b, err := (heartbeat{Daemon: "a", Demand: &small}).encode(nil); err != nil ||
		string(b) != string(said(t, heartbeat{Daemon: "a", Demand: &small})) {
		t.Errorf("%s: %v", b, err)
	}
}

func FuzzRequests(f *testing.F) {
	for _, e := range []planrecord.Entry{planrecord.Seal{Requester: "a"}, planrecord.Commit{Job: "a", Step: 7},
		planrecord.End{Steps: 1}, planrecord.Mix{},
		planrecord.Mix{RequestID: "a"}, planrecord.SealSource{Source: 1}} {
		b, _ := json.Marshal(Request{Record: planrecord.Encode(e), Retry: true, AfterRecord: 1<<64 - 1})
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Request
		if json.Unmarshal(b, &q) != nil {
			return
		}
		switch e, err := q.decodeEntry(); e.(type) {
		case planrecord.Control, planrecord.Seal, planrecord.Commit, planrecord.Leave:
		default:
			if err == nil && q.Record != nil {
				t.Fatalf("%T can be asked for", e)
			}
		}
	})
}

// A leader's heartbeats are bounded for any number of sources and jobs, and other daemons receive the whole report.
func TestHeartbeats_ReportOfManySourcesIsPaged(t *testing.T) {
	for _, n := range []int{0, 3, mixture.MaxSources} {
		r := state.Report{Steps: 9, Length: &state.Length{Steps: 20}, StreamProblem: "none"}
		if n == mixture.MaxSources {
			r.StreamProblem, r.Opening = strings.Repeat("x", 1<<20), &state.Opening{Error: strings.Repeat("ü", 1<<20)}
		}
		r.Sources = map[string]document.SourceStatus{}
		for i := range n {
			name := fmt.Sprintf("%04d%s", i, strings.Repeat("x", 40))
			r.PlanStats.Sources = append(r.PlanStats.Sources,
				state.SourceStats{Status: mixture.Status{Name: name, Tokens: 1 << 50, Epochs: 1}, Next: 1 << 50})
			r.Sources[name] = document.SourceStatus{Last: 1 << 50, FetchedAt: time.Unix(1<<33, 7).UTC(),
				DownReason: strings.Repeat("connection refused ", 20)}
			r.StreamFills = append(r.StreamFills, state.StreamFill{Source: name, Name: "DOCS_" + name, Bytes: 1 << 40})
			r.Length.OpenSources = append(r.Length.OpenSources, name)
		}
		d := state.NewDemand()
		for i := range uint64(4000) {
			d.Jobs[fmt.Sprintf("job%04d", i)] = state.JobDemand{Rank: 1 << 19, World: 1 << 20, Step: 1<<52 + i, RetainFrom: 7,
				Sent: 1<<52 + i}
		}
		leads, follower, bus := listener(), listener(), &words{}
		leads.heartbeats.setup.Backends.Daemon, leads.heartbeats.setup.Backends.Bus = "host/7/a", bus
		leads.SetAddress("grpc://a:1")
		for round := range uint64(2) {
			bus.all = nil
			sent := leads.heartbeats.publishReport(heartbeat{Demand: &d, Report: &r}, round+1)
			total := 0
			for i, b := range bus.all {
				if total += len(b); len(b) > maxHeartbeatBytes {
					t.Errorf("%d sources: word %d has %d bytes", n, i, len(b))
				}
				if round == 0 || i != 0 || len(bus.all) == 1 { // one page of the second report is lost
					follower.heartbeats.receive(b)
				}
			}
			if total != sent || (len(bus.all) > 1) != (n > 3) {
				t.Errorf("%d sources: %d bytes in %d words, reported %d", n, total, len(bus.all), sent)
			}
			var want state.Report // as in an unbounded heartbeat
			if b, err := json.Marshal(r); err != nil || json.Unmarshal(b, &want) != nil {
				t.Fatal(err)
			}
			want.StreamProblem = truncateText(want.StreamProblem)
			have := follower.Report()
			if have.Steps != want.Steps || have.StreamProblem != want.StreamProblem ||
				!reflect.DeepEqual(have.Length, want.Length) ||
				!slices.Equal(have.StreamFills, want.StreamFills) ||
				!slices.Equal(have.PlanStats.Sources, want.PlanStats.Sources) || !maps.Equal(have.Sources, want.Sources) {
				t.Errorf("%d sources: the report differs in round %d", n, round)
			}
		}
	}
}

// words is a Bus that records published messages.
type words struct {
	backend.Bus
	all [][]byte
}

func (w *words) Publish(b []byte) error {
	w.all = append(w.all, b)
	return nil
}

// A daemon recognizes its heartbeats without decoding them, and no others.
func TestHeartbeats_IsOwn(t *testing.T) {
	for of, want := range map[string]bool{"host/1/a": true, "host/1/ab": false, "host/1/": false, "": false} {
		encoded, err := heartbeat{Daemon: of}.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		b := heartbeats{setup: leader.Setup{Backends: backend.Backends{Daemon: "host/1/a"}}}
		if got := b.isOwn(encoded); got != want {
			t.Errorf("%q: %v", of, got)
		}
	}
}
