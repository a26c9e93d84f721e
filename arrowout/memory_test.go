package arrowout_test

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"loaderd/arrowout"
	"loaderd/internal/testscale"
	"loaderd/loader/fault"
)

// beside is the memory that a server may use in addition to the budget, under any load.
const beside = 200 << 20

// inUse returns the memory of this process that is not garbage: heap and stacks.
func inUse() int64 {
	runtime.GC() // what pools and finalizers hold is freed by the second collection
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// metered starts a server and returns a function that reads its metrics, by name and label.
func metered(t testing.TB, run *fakeRun, change func(*arrowout.Config)) (*arrowout.Server, func(name string) float64) {
	t.Helper()
	cfg := arrowout.Default()
	cfg.Listen = "127.0.0.1:0"
	change(&cfg)
	return meteredBy(t, cfg, run, slog.New(slog.DiscardHandler))
}

// Thousands of readers that never read use little more memory than the budget. They release it when they leave, and
// other readers still get what they need.
func TestMemory_ReadersThatNeverReadStayWithinBudget(t *testing.T) {
	calls, budget := testscale.Of(500, 5000), testscale.Of(256<<20, 1<<30)
	f := newFake(40, 4, 64<<10) // 1.5 MiB per batch
	s, metric := metered(t, f, func(c *arrowout.Config) { c.SendBytes, c.MaxStreamsPerIdentity = budget, calls+1 })
	before := inUse()
	var floods []*flood
	for i := range 2 {
		floods = append(floods, openFloods(t, s, calls/2, []uint32{0, 64 << 10}[i], "", `{}`)...)
	}
	eventually(t, "all have arrived", func() bool { return f.readers.Load() == int64(calls) })
	eventually(t, "they hold what one share may", func() bool { return metric("held_bytes") > float64(budget)/5 })
	if held := metric("held_bytes"); held > float64(budget)*3/4 {
		t.Errorf("readers that have taken nothing hold %.0f bytes, more than three quarters of the budget", held)
	}
	if took := inUse() - before; took > int64(budget)+beside {
		t.Errorf("%d readers that never read take %d MiB, with a budget of %d MiB", calls, took>>20, budget>>20)
	} else {
		t.Logf("%d readers that never read take %d MiB, with a budget of %d MiB", calls, took>>20, budget>>20)
	}

	r := mustGet(t, dial(t, s), `{}`)
	for step := range 40 {
		if !r.Next() || metadataOf(t, r).Step != uint64(step) {
			t.Fatalf("a reader that reads has had %d steps: %v", step, r.Err())
		}
	}
	for _, x := range floods {
		x.close()
	}
	eventually(t, "they are gone", func() bool { return f.readers.Load() == 0 && metric("held_bytes") == 0 })
	// What gRPC has of a lost connection is freed when the goroutines that serve it end.
	eventually(t, "what they held is free", func() bool { return inUse()-before < 64<<20 })
}

// Streams whose readers never read hold at most the limit of an identity. Meanwhile a reader of the same identity
// reads the whole run, and none of these streams is ended for it.
func TestMemory_ReaderContinuesDuringAbandonedStreams(t *testing.T) {
	const steps, calls = 120, 160
	f := newFake(steps, 4, 64<<10) // 1.5 MiB per batch
	s, metric := metered(t, f, func(c *arrowout.Config) { c.SendBytes = 64 << 20 })
	s.SetEvictAfter(time.Hour) // otherwise abandoned streams that wait for memory end each other
	for range 4 {
		openFlood(t, s, 0, calls/4, 0, "", `{}`)
	}
	eventually(t, "all have arrived", func() bool { return f.readers.Load() == calls })
	settle(f)
	if held := metric("held_bytes"); held < 20<<20 {
		t.Fatalf("they hold %.0f bytes", held)
	}
	r := mustGet(t, dial(t, s), `{}`)
	for step := range steps {
		if !r.Next() || metadataOf(t, r).Step != uint64(step) {
			t.Fatalf("a reader that reads has had %d steps: %v", step, r.Err())
		}
	}
	if cuts, slow := metric("cut_connections_total"), metric("errors_total SLOW_READER"); cuts > 0 || slow > 0 {
		t.Errorf("%.0f connections are cut and %.0f streams ended for it", cuts, slow)
	}
}

// A reader that takes nothing for flight.slow_reader_timeout loses its connection, its memory is released, and this is
// logged.
func TestSlowReader_LosesItsConnection(t *testing.T) {
	f := newFake(40, 4, 64<<10)
	var log syncBuffer
	cfg := arrowout.Default()
	cfg.Listen, cfg.SlowReaderTimeout = "127.0.0.1:0", 200*time.Millisecond
	s, metric := meteredBy(t, cfg, f, slog.New(slog.NewTextHandler(&log, nil)))
	x := openFlood(t, s, 0, 20, 1<<10, "", `{}`)
	<-x.ended
	eventually(t, "its memory is given back", func() bool { return f.readers.Load() == 0 && metric("held_bytes") == 0 })
	if n := metric("cut_connections_total"); n != 1 {
		t.Errorf("%v connections are cut", n)
	}
	if n := metric("errors_total SLOW_READER"); n < 1 || n > 20 {
		t.Errorf("%v streams have ended as slow", n)
	}
	if n := strings.Count(log.String(), "event=reader.cut"); n != 1 ||
		!strings.Contains(log.String(), "address=127.0.0.1:") {
		t.Errorf("%d lines of the log tell of it: %s", n, log.String())
	}
}

// A connection whose streams end slowly is cut once and logged once.
func TestSlowReader_ConnectionIsCutOnce(t *testing.T) {
	f := newFake(40, 4, 64<<10)
	s, metric := metered(t, f, func(*arrowout.Config) {})
	x := openFlood(t, s, 0, 20, 1<<10, "", `{}`)
	eventually(t, "it holds memory", func() bool { return f.readers.Load() == 20 && metric("held_bytes") > 0 })
	later := time.Now().Add(2 * arrowout.Default().SlowReaderTimeout)
	for ended := false; !ended; {
		s.ReapSlowReaders(later)
		select {
		case <-x.ended:
			ended = true
		default:
		}
	}
	if n := metric("cut_connections_total"); n != 1 {
		t.Errorf("%v connections are cut", n)
	}
}

// A reader that resumes before its connection is cut reads the batches that were sent, and then the reason of the
// end.
func TestSlowReader_ResumedReaderGetsReason(t *testing.T) {
	f := newFake(4, 4, 64<<10)
	f.last = nil
	s, metric := metered(t, f, func(*arrowout.Config) {})
	r := mustGet(t, dial(t, s), `{}`)
	eventually(t, "it has batches to take", func() bool { return f.assembled.Load() == 3 })
	soon := time.Now().Add(arrowout.Default().SlowReaderTimeout)
	s.ReapSlowReaders(soon.Add(-time.Minute))
	if n := metric("errors_total SLOW_READER"); n != 0 {
		t.Error("its stream has ended too soon")
	}
	s.ReapSlowReaders(soon.Add(time.Second))
	eventually(t, "its stream has ended", func() bool { return metric("errors_total SLOW_READER") == 1 })
	read := 0
	for r.Next() {
		read++
	}
	if read == 0 || read == 4 || infoOf(t, r.Err(), codes.Unavailable).Reason != "SLOW_READER" {
		t.Errorf("after %d steps: %v", read, r.Err())
	}
}

func meteredBy(t testing.TB, cfg arrowout.Config, run *fakeRun,
	log *slog.Logger) (*arrowout.Server, func(string) float64) {
	t.Helper()
	reg := prometheus.NewRegistry()
	s, err := arrowout.NewServer(cfg, arrowout.AdaptRun(run), log, reg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s, func(name string) float64 {
		name, label, _ := strings.Cut(name, " ")
		return valueOf(t, reg, "loaderd_flight_"+name, label)
	}
}

// valueOf returns the value of a metric, with the value of its label if it has one; 0 if it has no value yet.
func valueOf(t testing.TB, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// A stream whose reader is dropped by the run ends immediately, even during a blocked send or while it waits for a
// step.
func TestStream_DroppedReaderEndsImmediately(t *testing.T) {
	for name, steps := range map[string]int{"a send is stopped": 40, "no step": 0} {
		t.Run(name, func(t *testing.T) {
			f := newFake(steps, 4, 64<<10)
			f.last = nil
			joined := make(chan *fakeReader, 1)
			f.joined = func(r *fakeReader) { joined <- r }
			s, metric := metered(t, f, func(*arrowout.Config) {})
			openFlood(t, s, 0, 1, 1<<10, "", `{}`)
			r := <-joined
			eventually(t, "its batches are there", func() bool { return f.assembled.Load() == int64(min(steps, 3)) })
			r.dropped <- &fault.Error{Reason: fault.IdleReader, Message: "it has not asked for long"}
			eventually(t, "its stream has ended", func() bool {
				return f.readers.Load() == 0 && metric("errors_total IDLE_READER") == 1
			})
		})
	}
}
