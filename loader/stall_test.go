package loader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// oddDocs is a document stream whose source has a configurable status and delivers nothing when stuck is set.
type oddDocs struct {
	*memDocs
	status func(document.SourceStatus) document.SourceStatus
	unread bool // Read blocks
	down   bool // Read finds no server
	stuck  bool // Next blocks
}

type oddSource struct {
	blockingSource
	docs oddDocs
}

func (d oddDocs) Read(ctx context.Context, from uint64) (document.Source, error) {
	if d.unread {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if d.down {
		return nil, &fault.Error{Reason: fault.SourceDown, Message: "no responders"}
	}
	s, err := d.memDocs.open(from)
	if err != nil {
		return nil, err
	}
	return queued(oddSource{s, d}), nil
}

func (s oddSource) Next(ctx context.Context) ([]document.Document, error) {
	if s.docs.stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.blockingSource.Next(ctx)
}

func (s oddSource) Status() document.SourceStatus {
	status := s.blockingSource.Status()
	if s.docs.status != nil {
		status = s.docs.status(status)
	}
	return status
}

// planned returns a fixture whose run has planned 4 steps and was stopped. It has no checkpoints, so a restart replays.
func planned(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(config("concat"))
	w.options.CheckpointSteps = 0
	w.docs.lengths(slices.Repeat([]int{16}, 400)...)
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Info().Planned == 4 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.options.StallTimeout = 300 * time.Millisecond
	return w
}

func (w *fixture) odd(d oddDocs) {
	d.memDocs = w.docs
	w.edges = func(e *backend.Backends) { e.Sources = onlySource{Documents: d} }
}

func down(s document.SourceStatus) document.SourceStatus {
	s.DownSince, s.DownReason = time.Now(), "the cable is out"
	return s
}

// bubble runs a test with a fake clock, which advances as soon as everything waits.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Whatever blocks, a reader and a request get the cause in time.
func TestStall_ReadersAndRequestsGetCause(t *testing.T) {
	for _, c := range []struct {
		name    string
		docs    oddDocs
		step    fault.Reason // for a reader that waits for the next step
		request fault.Reason // for a request
	}{
		{"the document stream cannot be opened", oddDocs{down: true}, fault.SourceDown, fault.SourceDown},
		{"it opens without an answer", oddDocs{unread: true}, fault.CauseUnknown, fault.CauseUnknown},
		{"it is lost while re-planning", oddDocs{stuck: true, status: down}, fault.SourceDown, fault.SourceDown},
		{"re-planning takes long", oddDocs{stuck: true}, fault.Replaying, fault.Replaying},
	} {
		bubble(t, c.name, func(t *testing.T) {
			w := planned(t)
			w.odd(c.docs)
			run, _ := w.start(t)
			r, err := run.Join(state.RankID{World: 1}, 4)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := r.Next(t.Context()); reason(err) != c.step {
				t.Errorf("Next = %v, want %s", err, c.step)
			}
			if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 1); reason(err) != c.request {
				t.Errorf("Commit = %v, want %s", err, c.request)
			}
		})
	}
	bubble(t, "everything is fetched and waits to be tokenized", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout = 600 * time.Millisecond
		w.docs.lengths(slices.Repeat([]int{16}, 40)...)
		w.odd(oddDocs{stuck: true, status: func(document.SourceStatus) document.SourceStatus {
			return document.SourceStatus{Last: 40, Fetched: 40, Buffered: 1000, DrySince: time.Now(), Tokenizing: true}
		}})
		run, _ := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Next(t.Context()); reason(err) != fault.TokenizerBehind {
			t.Errorf("Next = %v", err)
		}
	})
	bubble(t, "the plan log does not answer", func(t *testing.T) {
		w := planned(t)
		run, stop := w.start(t)
		eventually(t, func() bool { return !run.Stats().Replaying })
		release := w.plan.hold()
		defer func() { release(); _ = stop() }()
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Next(t.Context()); reason(err) != fault.PlanLogDown {
			t.Errorf("Next = %v", err)
		}
		if _, err := run.Commit(t.Context(), planrecord.DefaultJob, 1); reason(err) != fault.PlanLogDown {
			t.Errorf("Commit = %v", err)
		}
	})
}

// oneReader is the streams of several sources. Only the stream that is opened first can be read.
type oneReader struct {
	shelf
	opened *atomic.Bool
}

type oneReaderDocs struct {
	*memDocs
	opened *atomic.Bool
}

func (s oneReader) Open(ctx context.Context, name string, c mixture.Source) (backend.Stream, error) {
	x, err := s.shelf.Open(ctx, name, c)
	x.Documents = oneReaderDocs{s.shelf[name], s.opened}
	return x, err
}

func (d oneReaderDocs) Read(ctx context.Context, from uint64) (document.Source, error) {
	if !d.opened.CompareAndSwap(false, true) {
		return nil, &fault.Error{Reason: fault.SourceDown, Message: "no leader"}
	}
	return d.memDocs.Read(ctx, from)
}

// While the stream of a second source cannot be opened, the cause is that stream, whatever the first one's state.
func TestStall_SecondSourceCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Sources = sources(map[string]float64{"code": 1, "web": 1})
		w, s := mixed(c, "code", "web")
		w.options.StallTimeout = time.Second
		w.edges = func(e *backend.Backends) { e.Sources = oneReader{s, new(atomic.Bool)} }
		for _, docs := range s {
			docs.lengths(slices.Repeat([]int{16}, 400)...)
		}
		run, _ := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		must(t, err)
		defer r.Close()
		for range 2 {
			_, err := r.Next(t.Context())
			if reason(err) != fault.SourceDown || !strings.Contains(err.Error(), "the stream of source ") ||
				!strings.Contains(err.Error(), "no leader") {
				t.Errorf("Next = %v, want %s", err, fault.SourceDown)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A document stream that ends before the plan's documents is a different stream. The run reports that when it reaches
// the end, and does not wait for documents.
func TestDocumentStream_ShorterThanPlanIsRefused(t *testing.T) {
	for _, control := range []bool{false, true} {
		w := planned(t)
		if control {
			run, stop := w.start(t)
			eventually(t, func() bool { return !run.Stats().Replaying })
			if _, err := run.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			w.docs.docs, w.options.Ahead = w.docs.docs[:399], 1<<20 // planned up to the flush
		} else {
			w.docs.docs = w.docs.docs[:10]
		}
		run, err := w.open(t)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := run.Serve(ctx); reason(err) != fault.DocumentLost {
			t.Errorf("Serve = %v", err)
		}
	}
}

func TestStall_NamesCause(t *testing.T) {
	bubble(t, "source dry", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout = 2 * time.Second
		w.docs.lengths(5, 6)
		run, _ := w.start(t)
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Next(t.Context())
		var e *fault.Error
		if !errors.As(err, &e) || e.Reason != fault.SourceDry || e.Facts["last_document"] != "2" ||
			!strings.Contains(e.Message, "document 2") {
			t.Fatalf("Next = %v", err)
		}
	})
	bubble(t, "source dry, but for documents that the leader holds", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout = 600 * time.Millisecond
		run, stop := w.start(t)
		eventually(t, func() bool { return !run.Stats().Replaying })
		release := w.plan.hold() // for less than the plan log's timeout
		defer func() { release(); _ = stop() }()
		r, err := run.Join(state.RankID{World: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		w.docs.lengths(slices.Repeat([]int{16}, 27)...) // one more than the leader plans before a step is stored
		_, err = r.Next(t.Context())
		if s := run.Stats().Source; s.Fetched != s.Last || s.Delivered >= s.Fetched || s.DrySince.IsZero() {
			t.Fatalf("source: %+v", s)
		}
		if reason(err) == fault.SourceDry {
			t.Errorf("Next = %v", err)
		}
	})
	bubble(t, "rank behind", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout = 2 * time.Second
		w.docs.lengths(slices.Repeat([]int{16}, 400)...)
		run, _ := w.start(t)
		a, _ := run.Join(state.RankID{Rank: 0, World: 2}, 0)
		b, _ := run.Join(state.RankID{Rank: 1, World: 2}, 0)
		defer b.Close()
		var err error
		for range 6 {
			if _, err = a.Next(t.Context()); err != nil {
				break
			}
		}
		var e *fault.Error
		if !errors.As(err, &e) || e.Reason != fault.RankBehind || e.Facts["rank"] != "1" {
			t.Fatalf("Next = %v", err)
		}
	})
	bubble(t, "plan log behind", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.Ahead, w.options.StallTimeout = 1, 2*time.Second
		w.docs.lengths(slices.Repeat([]int{16}, 4000)...)
		run, stop := w.start(t)
		r, _ := run.Join(state.RankID{World: 1}, 0)
		var last *plan.Step
		for range 100 { // more than are kept in memory
			last, _ = r.Next(t.Context())
		}
		synctest.Wait() // until no goroutine appends records
		w.plan.lag(len(w.plan.records) - 10)
		began := time.Now()
		if _, err := run.Step(t.Context(), last.Index-90); reason(err) != fault.PlanLogDown ||
			time.Since(began) != w.options.StallTimeout {
			t.Errorf("Step = %v after %v, from a log that stays behind", err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { w.plan.lag(0) })
		if s, err := run.Step(t.Context(), last.Index-90); err != nil || s.Index != last.Index-90 {
			t.Errorf("Step = %v from a log that catches up", err)
		}
		r.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "plan log down", func(t *testing.T) {
		w := newFixture(config("concat"))
		w.options.StallTimeout = 2 * time.Second
		w.docs.lengths(slices.Repeat([]int{16}, 40)...)
		run, err := w.open(t)
		if err != nil {
			t.Fatal(err)
		}
		release := w.plan.hold()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- run.Serve(ctx) }()
		r, _ := run.Join(state.RankID{World: 1}, 0)
		if _, err := r.Next(t.Context()); reason(err) != fault.PlanLogDown {
			t.Errorf("Next = %v", err)
		}
		cancel()
		release()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
