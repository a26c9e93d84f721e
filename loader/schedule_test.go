package loader_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// scheduleRecords returns the changes of the schedule in a plan.
func scheduleRecords(t *testing.T, l *memLog) (out []planrecord.Schedule) {
	t.Helper()
	must(t, l.Scan(t.Context(), 1, func(_ uint64, b []byte) error {
		e, err := planrecord.Decode(b)
		if c, is := e.(planrecord.Schedule); is {
			out = append(out, c)
		}
		return err
	}))
	return out
}

// table is the size of steps from a step or a number of tokens on, as the reference of a test states it.
type table struct {
	step, tokens int64 // the first step, or else the tokens in the steps before it
	bucket, rows int
}

// expectTables compares steps with the tables that apply to them, in order. It shares no code with the schedule.
func expectTables(t *testing.T, steps []*assembly.Batch, tables ...table) {
	t.Helper()
	tokens, used := int64(0), map[int]bool{}
	for i, s := range steps {
		at := 0
		for k, x := range tables {
			if k > 0 && (x.step > 0 && int64(i) >= x.step || x.tokens > 0 && tokens >= x.tokens) {
				at = k
			}
		}
		used[at] = true
		if x := tables[at]; s.Bucket != x.bucket || s.Rows != x.rows {
			t.Fatalf("step %d after %d tokens has %d rows of %d, want %d of %d", i, tokens, s.Rows, s.Bucket, x.rows, x.bucket)
		}
		for _, row := range s.Pieces {
			for _, x := range row {
				tokens += int64(x.Length)
			}
		}
	}
	if len(used) != len(tables) {
		t.Errorf("%d of %d tables apply to some step", len(used), len(tables))
	}
}

// expectDocumentsOnce reports tokens of documents that the steps do not have exactly once.
func expectDocumentsOnce(t *testing.T, steps []*assembly.Batch, lengths []int) {
	t.Helper()
	at := map[[2]int]int{}
	for _, s := range steps {
		for _, row := range s.Pieces {
			for _, x := range row {
				for k := range x.Length {
					at[[2]int{int(x.Doc), int(x.Start + k)}]++
				}
			}
		}
	}
	for i, n := range lengths {
		for k := range n {
			if at[[2]int{i + 1, k}] != 1 {
				t.Fatalf("token %d of document %d is in the steps %d times", k, i+1, at[[2]int{i + 1, k}])
			}
		}
	}
}

// A control changes the row lengths of a run, whose configuration changes them as well. Every token is delivered once.
// A repeated request, a restart, and another daemon that replays the plan change nothing.
func TestSchedule_ControlsMatchReference(t *testing.T) {
	for _, method := range []string{"bfd", "concat", "seamless", "ffd", "pad"} {
		t.Run(method, func(t *testing.T) {
			c := config(method)
			c.Packing.Overlap, c.Packing.Extra, c.Packing.Buckets = 0, 0, []int{16}
			c.Steps.Schedule = []runconfig.Phase{{FromTokens: 200, Rows: 2, Buckets: []int{24}}}
			w := newFixture(c)
			w.options.Ahead = 2
			lengths := someLengths(3, 300)
			w.docs.lengths(lengths...)
			run, stop := w.start(t)
			got := read(t, run, state.RankID{World: 1}, 0, 12)
			q := state.ScheduleRequest{Request: "r1", By: "alice", Phases: []runconfig.Phase{
				{FromStep: 20, Rows: 4, Buckets: []int{8}}, {FromStep: 26, Rows: 2}, {FromStep: 30, Tokens: 128,
					Buckets: []int{64}}}}
			step, err := run.ChangeSchedule(t.Context(), q)
			must(t, err)
			must(t, stop())
			run, stop = w.start(t)
			q.By = "bob"
			if again, err := run.ChangeSchedule(t.Context(), q); err != nil || again != step {
				t.Errorf("the repeated request returns step %d, %v, want %d", again, err, step)
			}
			got = append(got, read(t, run, state.RankID{World: 1}, 12, 14)...)
			must(t, stop())
			run, stop = w.start(t)
			_, err = run.Seal(t.Context())
			must(t, err)
			got = append(got, read(t, run, state.RankID{World: 1}, 26, 0)...)
			expectTables(t, got, table{bucket: 16, rows: c.Steps.Rows}, table{tokens: 200, bucket: 24, rows: 2},
				table{step: 20, bucket: 8, rows: 4}, table{step: 26, bucket: 8, rows: 2}, table{step: 30, bucket: 64, rows: 2})
			expectDocumentsOnce(t, got, lengths)
			if all := read(t, run, state.RankID{World: 1}, 0, 0); !reflect.DeepEqual(all, got) {
				t.Error("a restarted daemon serves other steps")
			}
			must(t, stop())
			if n := scheduleRecords(t, w.plan); len(n) != 1 || n[0].RequestID != "r1" || n[0].Requester != "alice" {
				t.Errorf("the plan has the changes %v", n)
			}
			_, err = maintenance.Audit(t.Context(), backend.Backends{Sources: onlySource{Documents: w.docs}, Plan: w.plan},
				c.Tokenizer, nil)
			must(t, err)
		})
	}
}

// Several daemons receive one request concurrently, during a failover. It is recorded once.
func TestSchedule_ConcurrentRequestsRecordOne(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(3, 400)...)
	w.options.Ahead, w.options.StallTimeout = 2, 20*time.Second
	cluster := newTestCluster()
	runs := make([]*loader.Run, 3)
	for i := range runs {
		runs[i], _ = w.join(t, cluster, fmt.Sprint("daemon", i))
	}
	for n := range 4 {
		read(t, runs[n%3], state.RankID{World: 1}, uint64(n), 1)
		q := state.ScheduleRequest{Request: fmt.Sprint("change", n), Phases: []runconfig.Phase{{Rows: 2 + 2*n,
			Buckets: []int{24 + 8*n}}}}
		steps := make([]uint64, 6)
		var asking sync.WaitGroup
		for i := range steps {
			asking.Go(func() {
				var err error
				if steps[i], err = runs[i%3].ChangeSchedule(t.Context(), q); err != nil {
					t.Error(err)
				}
			})
		}
		if n%2 == 0 {
			cluster.depose(lossReported)
		}
		asking.Wait()
		for _, step := range steps {
			if step != steps[0] {
				t.Errorf("change %d begins at the steps %v", n, steps)
				break
			}
		}
	}
	if n := scheduleRecords(t, w.plan); len(n) != 4 {
		t.Errorf("the plan has the changes %v", n)
	}
}

// A change to row lengths that a source with its own packing does not have is refused, as is the addition of such a
// source later.
func TestSchedule_RefusesRowLengthsWithoutThoseOfSource(t *testing.T) {
	c := config("bucket")
	c.Packing.Buckets = []int{16, 32}
	w, s := mixed(c, "docs", "long")
	s["docs"].lengths(someLengths(3, 200)...)
	s["long"].lengths(someLengths(4, 200)...)
	w.config.Sources = sources(map[string]float64{"docs": 1})
	w.options.Ahead = 2
	run, _ := w.start(t)
	own := packonline.Config{Method: "concat", Buckets: []int{32}, Atom: 1, Pool: 8}
	long := mixture.Source{Weight: 1, Epochs: 1, Packing: &own, Attention: runconfig.AttentionDocument}
	change := func(buckets ...int) error {
		_, err := run.ChangeSchedule(t.Context(), state.ScheduleRequest{Phases: []runconfig.Phase{
			{Rows: 4, Buckets: buckets}}})
		return err
	}
	add := func() error {
		_, err := run.Mix(t.Context(), state.MixRequest{Change: mixture.Change{Add: map[string]mixture.Source{"long": long}}})
		return err
	}
	must(t, change(16, 64))
	if err := add(); reason(err) != fault.InvalidTicket {
		t.Errorf("rows of 32 tokens were added to a run with rows of 16 and 64: %v", err)
	}
	must(t, change(16, 32, 64))
	must(t, add())
	if err := change(16, 64); reason(err) != fault.InvalidTicket {
		t.Errorf("rows of 32 tokens were removed from a run with a source that needs them: %v", err)
	}
	read(t, run, state.RankID{World: 1}, 0, 5)
}
