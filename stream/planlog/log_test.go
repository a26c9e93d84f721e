package planlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/planlog"
)

func openPlan(t testing.TB, s *stream.Store, run string) *planlog.Log {
	t.Helper()
	l, err := planlog.Open(natstest.TimeoutContext(t, time.Minute), s, run)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func scan(t testing.TB, l *planlog.Log, from uint64) []string {
	t.Helper()
	var out []string
	next := from
	err := l.Scan(natstest.TimeoutContext(t, 3*time.Minute), from, func(position uint64, record []byte) error {
		if position != next {
			t.Errorf("scan: position %d, want %d", position, next)
		}
		next++
		out = append(out, string(record))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func planRecords(first, n int) (records [][]byte) {
	for i := range n {
		records = append(records, fmt.Appendf(nil, "record %d", first+i))
	}
	return records
}

func asStrings(records [][]byte) (out []string) {
	for _, r := range records {
		out = append(out, string(r))
	}
	return out
}

func TestLog_AppendsAndScans(t *testing.T) {
	l := openPlan(t, natstest.Start(t).Store(), "run")
	ctx := natstest.TimeoutContext(t, time.Minute)
	if last, err := l.Last(ctx); err != nil || last != 0 {
		t.Fatalf("empty log: last %d, %v", last, err)
	}
	last := uint64(0)
	for _, n := range []int{1, 2, 999, 1000, 1001, 2500, 1} {
		if err := l.Append(ctx, last, planRecords(int(last)+1, n)...); err != nil {
			t.Fatalf("append %d records: %v", n, err)
		}
		last += uint64(n)
	}
	if got, err := l.Last(ctx); err != nil || got != last {
		t.Fatalf("last %d, %v, want %d", got, err, last)
	}
	got := scan(t, l, 1)
	if !slices.Equal(got, asStrings(planRecords(1, int(last)))) {
		t.Fatalf("scan gave %d records, want %d in order", len(got), last)
	}
	if got := scan(t, l, last); len(got) != 1 || got[0] != fmt.Sprintf("record %d", last) {
		t.Errorf("scan from the last: %q", got)
	}
	if got := scan(t, l, last+1); len(got) != 0 {
		t.Errorf("scan behind the last: %q", got)
	}
	if r, err := l.Get(ctx, 1002); err != nil || string(r) != "record 1002" {
		t.Errorf("get 1002: %q, %v", r, err)
	}
	for _, p := range []uint64{0, last + 1} {
		if _, err := l.Get(ctx, p); !errors.Is(err, planlog.ErrNoRecord) {
			t.Errorf("get %d: %v, want ErrNoRecord", p, err)
		}
	}
}

func TestScan_StopsOnCallbackError(t *testing.T) {
	l := openPlan(t, natstest.Start(t).Store(), "run")
	if err := l.Append(natstest.TimeoutContext(t, time.Minute), 0, planRecords(1, 10)...); err != nil {
		t.Fatal(err)
	}
	stop, calls := errors.New("enough"), 0
	err := l.Scan(natstest.TimeoutContext(t, time.Minute), 1, func(uint64, []byte) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("error %v after %d calls, want %v after 1", err, calls, stop)
	}
}

func TestAppend_LargestRecord(t *testing.T) {
	l := openPlan(t, natstest.Start(t).Store(), "run")
	ctx := natstest.TimeoutContext(t, 3*time.Minute)
	if err := l.Append(ctx, 0, make([]byte, l.MaxRecord())); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(ctx, 1, make([]byte, l.MaxRecord()), make([]byte, l.MaxRecord()), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := scan(t, l, 1); len(got) != 4 || len(got[2]) != l.MaxRecord() {
		t.Errorf("scan gave %d records", len(got))
	}
	if err := l.Append(ctx, 4, make([]byte, l.MaxRecord()+1)); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("one byte more: error %v", err)
	}
}

// Invariant L2: of two writers that read the same end, one appends and the other loses leadership, with one
// record and with a batch.
func TestAppend_OneOfTwoWritersLosesLeadership(t *testing.T) {
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n, " records"), func(t *testing.T) {
			s := natstest.Start(t)
			logs := []*planlog.Log{openPlan(t, s.Store(), "run"), openPlan(t, s.OpenRemote(), "run")}
			ctx := natstest.TimeoutContext(t, time.Minute)
			last := uint64(0)
			for range 20 {
				errs := make([]error, len(logs))
				var writers sync.WaitGroup
				for i, l := range logs {
					// Equal records: two planners of one run plan the same steps.
					writers.Go(func() { errs[i] = l.Append(ctx, last, planRecords(int(last), n)...) })
				}
				writers.Wait()
				won := 0
				for _, err := range errs {
					switch {
					case err == nil:
						won++
					case !errors.Is(err, fault.ErrLeadershipLost):
						t.Fatal(err)
					}
				}
				last += uint64(n)
				if won != 1 {
					t.Fatalf("%d writers won at %d: %v", won, last, errs)
				}
				if got, err := logs[0].Last(ctx); err != nil || got != last {
					t.Fatalf("log ends at %d, %v, want %d", got, err, last)
				}
			}
		})
	}
}

// An append through an isolated stream leader that lacks records is retried and does not report lost leadership.
func TestAppend_LaggingServerCannotEndLeadership(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	ctx := natstest.TimeoutContext(t, 2*time.Minute)
	l := openPlan(t, c.Store(), "run")
	if err := l.Append(ctx, 0, planRecords(0, 5)...); err != nil {
		t.Fatal(err)
	}
	plan := c.Config().PlanStream("run").Name
	c.AwaitSync(plan)
	old := c.Leader(plan)
	others := c.Followers(plan)
	behind, ahead := openPlan(t, c.Store(old), "run"), openPlan(t, c.Store(others...), "run")
	c.Isolate(old)
	c.Leader(plan, others...)
	if err := ahead.Append(ctx, 5, planRecords(5, 5)...); err != nil {
		t.Fatal(err)
	}
	appended := make(chan error, 1)
	go func() { appended <- behind.Append(ctx, 10, planRecords(10, 5)...) }()
	select {
	case err := <-appended:
		t.Fatalf("Append = %v by a server that is cut off", err)
	case <-time.After(2 * time.Second):
	}
	c.Heal()
	if err := <-appended; err != nil {
		t.Errorf("Append = %v", err)
	}
	if end, err := l.Last(ctx); err != nil || end != 15 {
		t.Errorf("the log ends at %d, %v", end, err)
	}
	if err := behind.Append(ctx, 10, planRecords(10, 5)...); !errors.Is(err, fault.ErrLeadershipLost) {
		t.Errorf("Append = %v where others have appended", err)
	}
}

// A read of a record that the log is known to contain is retried while an isolated server lacks it.
func TestGet_WaitsForLaggingServer(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	ctx := natstest.TimeoutContext(t, 2*time.Minute)
	if err := openPlan(t, c.Store(), "run").Append(ctx, 0, planRecords(0, 5)...); err != nil {
		t.Fatal(err)
	}
	plan := c.Config().PlanStream("run").Name
	c.AwaitSync(plan)
	old, others := c.Leader(plan), c.Followers(plan)
	behind, ahead := openPlan(t, c.Store(old), "run"), openPlan(t, c.Store(others...), "run")
	c.Isolate(old)
	c.Leader(plan, others...)
	if err := ahead.Append(ctx, 5, planRecords(5, 5)...); err != nil {
		t.Fatal(err)
	}
	planlog.ObserveEnd(behind, 10) // as from a response of another server
	got := make(chan error, 1)
	go func() {
		record, err := behind.Get(ctx, 10)
		if want := planRecords(9, 1)[0]; err == nil && !bytes.Equal(record, want) {
			err = fmt.Errorf("record %q, want %q", record, want)
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("Get = %v from a server that is cut off", err)
	case <-time.After(2 * time.Second):
	}
	c.Heal()
	if err := <-got; err != nil {
		t.Errorf("Get = %v", err)
	}
}

func TestAppend_FullLogIsRefused(t *testing.T) {
	s := natstest.Start(t, func(c *stream.Config) { c.PlanBytes = 1 << 20 })
	l := openPlan(t, s.Store(), "run")
	ctx := natstest.TimeoutContext(t, time.Minute)
	if err := l.Append(ctx, 0, make([]byte, 800<<10)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3} {
		records := make([][]byte, n)
		for i := range records {
			records[i] = make([]byte, 400<<10)
		}
		if err := l.Append(ctx, 1, records...); !errors.Is(err, conn.ErrFull) ||
			!strings.Contains(err.Error(), "stream.plan_bytes") {
			t.Errorf("append of %d: error %v, want conn.ErrFull", n, err)
		}
		if last, err := l.Last(ctx); err != nil || last != 1 {
			t.Errorf("after a refused append of %d the log ends at %d, %v", n, last, err)
		}
	}
}

func TestOpenReadOnly_CreatesNothing(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	if _, err := planlog.OpenReadOnly(ctx, s.Store(), "run"); !errors.Is(err, planlog.ErrNoPlan) {
		t.Fatalf("error %v, want ErrNoPlan", err)
	}
	if _, err := planlog.OpenReadOnly(ctx, s.Store(), "run"); !errors.Is(err, planlog.ErrNoPlan) {
		t.Fatal("ReadLog made the plan that it looked for")
	}
	if err := openPlan(t, s.Store(), "run").Append(ctx, 0, []byte("one")); err != nil {
		t.Fatal(err)
	}
	l, err := planlog.OpenReadOnly(ctx, s.Store(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if got := scan(t, l, 1); len(got) != 1 {
		t.Errorf("read %q", got)
	}
	if err := l.Append(ctx, 1, []byte("two")); err == nil {
		t.Error("a log opened for reading took a record")
	}
}

func TestOpen_RefusesInvalidRunNames(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	for _, run := range []string{"", "a b", "a.b", "*", "run>", "ä", strings.Repeat("a", 65)} {
		if _, err := planlog.Open(ctx, s.Store(), run); err == nil || !strings.Contains(err.Error(), "run name") {
			t.Errorf("run %q: error %v", run, err)
		}
	}
	openPlan(t, s.Store(), "A-b_9"+strings.Repeat("a", 59))
}

// A writer that appends while its server restarts many times stores every record once and in order.
func TestAppend_SurvivesServerRestarts(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50} {
		t.Run(fmt.Sprint(n, " records"), func(t *testing.T) {
			s := natstest.Start(t)
			l := openPlan(t, s.OpenRemote(), "run")
			appended := make(chan int)
			ctx := natstest.TimeoutContext(t, 2*time.Minute)
			var writer sync.WaitGroup
			var failed error
			total := 0
			stop, cancel := context.WithCancel(ctx)
			defer cancel()
			writer.Go(func() {
				defer close(appended)
				for stop.Err() == nil {
					if failed = l.Append(ctx, uint64(total), planRecords(total+1, n)...); failed != nil {
						return
					}
					total += n
					select {
					case appended <- total:
					case <-stop.Done():
					}
				}
			})
			for range 5 {
				for range 10 {
					<-appended
				}
				s.Restart() // the writer is in the middle of its next append
			}
			<-appended
			cancel()
			writer.Wait()
			if failed != nil {
				t.Fatal(failed)
			}
			got := scan(t, openPlan(t, s.Store(), "run"), 1)
			if !slices.Equal(got, asStrings(planRecords(1, total))) {
				t.Fatalf("log holds %d records, want %d in order", len(got), total)
			}
		})
	}
}

// If every acknowledgement is lost after the server stored the records, no record is stored twice and none is
// mistaken for another writer's.
func TestAppend_SurvivesLostAcknowledgements(t *testing.T) {
	for _, n := range []int{1, 50} {
		t.Run(fmt.Sprint(n, " records"), func(t *testing.T) {
			s := natstest.Start(t)
			link := natstest.NewLink(t, s.Store().ClientURL())
			l, near := openPlan(t, s.OpenRemoteAt(link.URL()), "run"), openPlan(t, s.Store(), "run")
			ctx := natstest.TimeoutContext(t, time.Minute)
			for last := uint64(0); last < uint64(10*n); last += uint64(n) {
				link.DropResponses()
				done := make(chan error, 1)
				go func() { done <- l.Append(ctx, last, planRecords(int(last)+1, n)...) }()
				natstest.Eventually(t, "the records are stored", func() bool {
					end, err := near.Last(ctx)
					return err == nil && end == last+uint64(n)
				})
				link.Cut()
				link.Restore()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if got := scan(t, near, 1); !slices.Equal(got, asStrings(planRecords(1, 10*n))) {
				t.Fatalf("log holds %d records, want %d in order", len(got), 10*n)
			}
		})
	}
}

// Equal records that another process stored while this writer could not send are not mistaken for its own.
func TestAppend_EqualRecordsOfAnotherWriterEndLeadership(t *testing.T) {
	for _, n := range []int{1, 5} {
		s := natstest.Start(t)
		link := natstest.NewLink(t, s.Store().ClientURL())
		l, other := openPlan(t, s.OpenRemoteAt(link.URL()), "run"), openPlan(t, s.Store(), "run")
		ctx := natstest.TimeoutContext(t, time.Minute)
		link.Cut()
		done := make(chan error, 1)
		go func() { done <- l.Append(ctx, 0, planRecords(1, n)...) }()
		if err := other.Append(ctx, 0, planRecords(1, n)...); err != nil {
			t.Fatal(err)
		}
		link.Restore()
		if err := <-done; !errors.Is(err, fault.ErrLeadershipLost) {
			t.Errorf("append of %d: error %v, want ErrLeadershipLost", n, err)
		}
	}
}

func TestAppend_WithoutServerEndsWithContext(t *testing.T) {
	s := natstest.Start(t)
	l := openPlan(t, s.OpenRemote(), "run")
	s.Stop()
	ctx := natstest.TimeoutContext(t, 300*time.Millisecond)
	if err := l.Append(ctx, 0, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 2, 10, 100, 1000} {
		b.Run(fmt.Sprint("records=", n), func(b *testing.B) {
			l := openPlan(b, natstest.Start(b).Store(), "run")
			record := make([]byte, 1000)
			records := make([][]byte, n)
			for i := range records {
				records[i] = record
			}
			last := uint64(0)
			for b.Loop() {
				if err := l.Append(context.Background(), last, records...); err != nil {
					b.Fatal(err)
				}
				last += uint64(n)
			}
			b.ReportMetric(float64(last)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkScan(b *testing.B) {
	l := openPlan(b, natstest.Start(b).Store(), "run")
	record := make([]byte, 200)
	var records [][]byte
	for range 1000 {
		records = append(records, record)
	}
	const n = 100_000
	for last := uint64(0); last < n; last += 1000 {
		if err := l.Append(context.Background(), last, records...); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := l.Scan(context.Background(), 1, func(uint64, []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// A plan with a hole is readable except for the hole: the missing record is named, and later records are present.
func TestOpenDamaged_NamesMissingRecord(t *testing.T) {
	ctx := natstest.Context(t)
	store := natstest.Start(t).Store()
	l, err := planlog.Open(ctx, store, "r")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(ctx, 0, []byte("a"), []byte("b"), []byte("c")); err != nil {
		t.Fatal(err)
	}
	js := store.Own().JetStream()
	st, err := js.Stream(ctx, "PLAN_r")
	if err != nil {
		t.Fatal(err)
	}
	open := st.CachedInfo().Config
	if err := js.DeleteStream(ctx, "PLAN_r"); err != nil {
		t.Fatal(err)
	}
	open.DenyDelete, open.DenyPurge = false, false
	if st, err = js.CreateStream(ctx, open); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a", "b", "c"} {
		if _, err := js.Publish(ctx, "plan.r", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.DeleteMsg(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := planlog.OpenReadOnly(ctx, store, "r"); err == nil {
		t.Error("a plan with a hole was opened")
	}
	var damaged backend.PlanLog
	if damaged, err = planlog.OpenDamaged(ctx, store, "r"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for at, want := range map[uint64]string{1: "a", 2: "", 3: "c", 4: ""} {
		have, err := damaged.Get(ctx, at)
		if string(have) != want || errors.Is(err, planlog.ErrNoRecord) != (want == "") {
			t.Errorf("record %d is %q, %v, want %q", at, have, err, want)
		}
	}
	if last, err := damaged.Last(ctx); last != 3 || err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("it ends at %d, %v", last, err)
	}
	if _, err := planlog.OpenDamaged(ctx, store, "nobody"); !errors.Is(err, planlog.ErrNoPlan) {
		t.Errorf("no plan: %v", err)
	}
	if err := damaged.Append(ctx, 3, []byte("d")); err == nil {
		t.Error("a damaged plan took a record")
	}
}
