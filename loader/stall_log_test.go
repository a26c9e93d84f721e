package loader_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/state"
)

// lines keeps the log records whose message and attributes contain words.
type lines struct {
	slog.Handler
	words string
	mu    sync.Mutex
	all   []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.Key + "=" + a.Value.String(); return true })
	if strings.Contains(line, l.words) {
		l.all = append(l.all, line)
	}
	return nil
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.all
	l.all = nil
	return out
}

// waiting runs a test of a run in a synctest bubble. Its reader joins again whenever it gets a cause of the wait.
func waiting(t *testing.T, test func(w *fixture, run *loader.Run, log *lines)) {
	synctest.Test(t, func(t *testing.T) {
		w, log := newFixture(config("concat")), &lines{words: "event=stall."}
		w.options.StallTimeout = time.Minute
		w.edges = func(e *backend.Backends) { e.Log = slog.New(log) }
		run, stop := w.start(t)
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		reading.Go(func() {
			for step := uint64(0); ctx.Err() == nil; {
				r, err := run.Join(state.RankID{World: 1}, step)
				if err != nil {
					t.Error(err)
					return
				}
				for ; err == nil; step++ {
					if _, err = r.Next(ctx); err != nil {
						break
					}
				}
				r.Close()
				if e := (*fault.Error)(nil); !errors.As(err, &e) {
					return // the end of the run or of ctx
				}
				time.Sleep(time.Second)
			}
		})
		test(w, run, log)
		cancel()
		reading.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func check(t *testing.T, log *lines, when string, want ...string) {
	t.Helper()
	got := log.take()
	if len(got) != len(want) {
		t.Fatalf("%s: the log is %q, want %q", when, got, want)
	}
	for i, line := range got {
		for word := range strings.FieldsSeq(want[i]) {
			if !slices.Contains(strings.Fields(strings.NewReplacer(",", " ", ";", " ", ":", " ").Replace(line)), word) {
				t.Errorf("%s: the log is %q, without %q", when, line, word)
			}
		}
	}
}

// A wait is logged once after 10 seconds, again when its cause changes, once per minute if only its figures change,
// and when it ends.
func TestStallLog_LogsStartChangesAndEnd(t *testing.T) {
	waiting(t, func(w *fixture, run *loader.Run, log *lines) {
		time.Sleep(9*time.Second + 500*time.Millisecond)
		check(t, log, "after 9 s")
		time.Sleep(3 * time.Second)
		check(t, log, "after 12 s",
			"step=0 readers=1 waited=10s reason=SOURCE_DRY cause=Waiting documents 10 rows needed 0 buffered")
		time.Sleep(5 * time.Minute) // the reader gets the cause and joins again
		check(t, log, "when nothing changes")
		w.docs.lengths(16, 16, 16)
		time.Sleep(2 * time.Second)
		check(t, log, "when documents come", "reason=POOL_FILLING 10 rows needed 3 buffered 7 more documents")
		time.Sleep(10 * time.Second)
		check(t, log, "when no more come", "reason=SOURCE_DRY")
		for range 4 { // the cause changes every few seconds
			w.docs.lengths(16)
			time.Sleep(8 * time.Second)
		}
		check(t, log, "while documents trickle")
		time.Sleep(time.Minute)
		check(t, log, "when they have not for a minute", "reason=SOURCE_DRY 10 rows needed 7 buffered")
		w.docs.lengths(slices.Repeat([]int{16}, 3)...)
		time.Sleep(2 * time.Second)
		check(t, log, "when the step is there", "resolved step=1")
		time.Sleep(30 * time.Second)
		check(t, log, "at the next step", "step=1 reason=SOURCE_DRY")
	})
}

// No wait is logged without a waiting reader.
func TestStallLog_QuietWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := newFixture(config("concat")), &lines{words: "event=stall."}
		w.edges = func(e *backend.Backends) { e.Log = slog.New(log) }
		run, stop := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next = %v", err)
		}
		r.Close()
		time.Sleep(time.Hour)
		check(t, log, "without a reader")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
