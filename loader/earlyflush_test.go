package loader_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	defaults "loaderd/internal/config"
	"loaderd/loader"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// defaultFixture returns a fixture with the default pool, holdback, shuffle window and step.
func defaultFixture() *fixture {
	c, d := config("bucket"), defaults.Default()
	c.Packing, c.Shuffle, c.Steps = d.Plan.Packing, d.Plan.Shuffle, d.Plan.Steps
	w := newFixture(c)
	w.options.FirstStepQuiet, w.options.FirstStepDocuments = d.Serve.FirstStepQuiet, d.Serve.FirstStepDocuments
	w.options.StallTimeout, w.options.CheckpointSteps = time.Hour, 0
	return w
}

// flushes returns the documents after which the plan was flushed.
func (w *fixture) flushes(t *testing.T) (at []uint64) {
	t.Helper()
	w.plan.mu.Lock()
	defer w.plan.mu.Unlock()
	for _, b := range w.plan.records {
		e, err := planrecord.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := e.(planrecord.Flush); ok {
			at = append(at, d.Arrival)
		}
	}
	return at
}

// trickle publishes n documents of a length, one per second.
func (w *fixture) trickle(n, length int) {
	for range n {
		w.docs.lengths(length)
		time.Sleep(time.Second)
	}
	time.Sleep(time.Second / 2) // no document arrives at a poll
}

func TestFirstStep_SmallCorpus(t *testing.T) {
	for _, last := range []string{runconfig.LastPad, runconfig.LastDrop} {
		bubble(t, last, func(t *testing.T) {
			w := defaultFixture()
			w.config.Steps.Last = last
			w.docs.lengths(slices.Repeat([]int{1000}, 300)...)
			run, stop := w.start(t)
			j := verdictTest{t, w, run}
			r := j.join(0, 1, 0)
			told := j.request(r)
			for _, after := range []time.Duration{2 * time.Second, 4 * time.Second, 20 * time.Second} {
				time.Sleep(after)
				v := j.expect(diagnosis.Waiting, "First step", diagnosis.LimitDocuments)
				if v.Reason != fault.PoolFilling || !strings.HasSuffix(v.Sentence, ": 300 documents are buffered") ||
					v.Detail != "they are packed after 30 s without a new one, or at 2,000 documents" ||
					!strings.HasSuffix(v.Advice, "loaderd seal if no further documents will arrive") {
					t.Errorf("after %v: %+v", after, v)
				}
			}
			time.Sleep(5 * time.Second)
			if err := told(); err != nil {
				t.Fatal(err)
			}
			if planned := run.Stats().Planned; planned != 2 {
				t.Errorf("%d steps are planned after 31 s, want 2", planned)
			}
			have := read(t, run, state.RankID{World: 1}, 0, 2)
			j.next(r)
			j.request(r)
			time.Sleep(time.Minute)
			v := j.expect(diagnosis.Waiting, "Waiting for documents, ", diagnosis.LimitDocuments)
			left := "publish more documents, or end the run with loaderd seal: "
			if last == runconfig.LastPad {
				left += "its last step then has 22 rows of documents and 42 of padding"
			} else {
				left += "what is left fills no step and is dropped"
			}
			if !strings.HasPrefix(v.Detail, "22 rows are left, a step has 64 (at least 87 more documents") || v.Advice != left {
				t.Errorf("%+v", v)
			}
			if v.Facts["rows_needed"] != "64" || v.Facts["rows_ready"] != "22" || v.Facts["documents_needed"] != "87" {
				t.Errorf("facts are %v", v.Facts)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if at := w.flushes(t); !slices.Equal(at, []uint64{300}) {
				t.Errorf("flushed behind %v, want 300", at)
			}
			if _, err := maintenance.Audit(t.Context(), w.edgesOf(), w.config.Tokenizer, nil); err != nil {
				t.Error(err)
			}
			w.options.FirstStepQuiet, w.options.FirstStepDocuments = 0, 0
			run, _ = w.start(t) // replays from the start
			if again := read(t, run, state.RankID{World: 1}, 0, 2); !reflect.DeepEqual(again, have) {
				t.Error("the plan with an early flush does not replay")
			}
		})
	}
}

func TestFirstStep_DocumentsFlow(t *testing.T) {
	bubble(t, "a document a second", func(t *testing.T) {
		w := defaultFixture()
		run, stop := w.start(t)
		j := verdictTest{t, w, run}
		r := j.join(0, 1, 0)
		told := j.request(r)
		w.trickle(300, 1000)
		j.expect(diagnosis.Waiting, "First step in about 28 min: 300 documents are buffered", diagnosis.LimitDocuments)
		w.trickle(1701, 1000)
		if err := told(); err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				if _, err := r.Next(t.Context()); err != nil {
					return
				}
			}
		}()
		w.trickle(16_000, 1000)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if at := w.flushes(t); !slices.Equal(at, []uint64{2000, 6000}) {
			t.Errorf("flushed behind %v, want 2000 and 6000", at)
		}
	})
}

// trickleTo starts a run of a fixture with a reader that requests steps continuously, and publishes documents with
// trickle.
func trickleTo(t *testing.T, w *fixture, documents, length int) *loader.Run {
	run, _ := w.start(t)
	r := verdictTest{t, w, run}.join(0, 1, 0)
	go func() {
		for {
			if _, err := r.Next(t.Context()); err != nil {
				return
			}
		}
	}()
	w.trickle(documents, length)
	return run
}

func TestFirstStep_PrimedRunIsNotFlushed(t *testing.T) {
	bubble(t, "trickle", func(t *testing.T) {
		w := defaultFixture()
		w.docs.lengths(slices.Repeat([]int{1000}, 12_000)...) // fill the window before a reader has waited for long
		run := trickleTo(t, w, 600, 1000)
		if run.Stats().Planned == 0 {
			t.Error("no step is planned")
		}
		time.Sleep(time.Hour) // no documents arrive
		if at := w.flushes(t); len(at) > 0 {
			t.Errorf("flushed behind %v", at)
		}
	})
}

func TestFirstStep_NoReaderNoFlush(t *testing.T) {
	bubble(t, "quiet", func(t *testing.T) {
		w := defaultFixture()
		w.docs.lengths(slices.Repeat([]int{1000}, 3000)...)
		run, _ := w.start(t)
		time.Sleep(time.Hour)
		verdictTest{t, w, run}.expect(diagnosis.Waiting, "First step: 3,000 documents are buffered", diagnosis.LimitDocuments)
		if at := w.flushes(t); len(at) > 0 {
			t.Errorf("flushed behind %v", at)
		}
	})
}

func TestFirstStep_ShortDocumentsWait(t *testing.T) {
	bubble(t, "chat", func(t *testing.T) {
		w := defaultFixture()
		run := trickleTo(t, w, 64, 60)
		j := verdictTest{t, w, run}
		j.expect(diagnosis.Waiting, "First step in about 35 min: 64 documents are buffered", diagnosis.LimitDocuments)
		time.Sleep(10 * time.Minute)
		v := j.expect(diagnosis.Waiting, "Waiting for documents, 10 min", diagnosis.LimitDocuments)
		if !strings.HasPrefix(v.Detail, "2 rows are buffered, a step has 64 (at least 2,117 more documents") {
			t.Errorf("%+v", v)
		}
		if at := w.flushes(t); len(at) > 0 {
			t.Errorf("flushed behind %v", at)
		}
	})
}

func TestFirstStep_TakeoverFlushesOnce(t *testing.T) {
	bubble(t, "restart", func(t *testing.T) {
		w := defaultFixture()
		run := trickleTo(t, w, 300, 1000)
		time.Sleep(time.Minute)
		steps := run.Stats().Planned
		for range 2 {
			again, _ := w.start(t) // the earlier leader is deposed
			r := verdictTest{t, w, again}.join(0, 1, steps)
			verdictTest{t, w, again}.request(r)
			time.Sleep(time.Minute)
		}
		if at := w.flushes(t); !slices.Equal(at, []uint64{300}) || steps != 2 {
			t.Errorf("flushed behind %v with %d steps, want 300 and 2", at, steps)
		}
	})
}

// The document limit causes a flush only after a reader has waited, not when a reader has just connected.
func TestFirstStep_DocumentLimitWaitsForReader(t *testing.T) {
	bubble(t, "trickle", func(t *testing.T) {
		w := defaultFixture()
		w.docs.lengths(slices.Repeat([]int{1000}, 3000)...)
		run, _ := w.start(t)
		w.trickle(60, 1000)
		j := verdictTest{t, w, run}
		told := j.request(j.join(0, 1, 0))
		w.trickle(28, 1000)
		if at := w.flushes(t); len(at) > 0 {
			t.Errorf("flushed behind %v", at)
		}
		w.trickle(5, 1000)
		must(t, told())
		if at := w.flushes(t); len(at) != 1 || at[0] < 3088 {
			t.Errorf("flushed behind %v, want one behind 3088 or later", at)
		}
	})
}

// After a failover, the leader counts documents from the last record of the log.
func TestFirstStep_TakeoverCountsFromTheLog(t *testing.T) {
	bubble(t, "restart", func(t *testing.T) {
		w := defaultFixture()
		trickleTo(t, w, 2500, 1000)
		if at := w.flushes(t); !slices.Equal(at, []uint64{2000}) {
			t.Fatalf("flushed behind %v, want 2000", at)
		}
		again, _ := w.start(t) // the earlier leader is deposed
		r := verdictTest{t, w, again}.join(0, 1, 0)
		go func() {
			for {
				if _, err := r.Next(t.Context()); err != nil {
					return
				}
			}
		}()
		w.trickle(2100, 1000)
		if at := w.flushes(t); !slices.Equal(at, []uint64{2000, 4000}) {
			t.Errorf("flushed behind %v, want 2000 and 4000", at)
		}
	})
}

// In a run with several sources, the source of the next document decides whether no documents arrive.
func TestFirstStep_SeveralSources(t *testing.T) {
	for _, dry := range []string{mixture.DryWait, mixture.DryShare} {
		bubble(t, dry, func(t *testing.T) {
			d := defaultFixture()
			c := d.config
			c.Sources = sources(map[string]float64{"code": 1, "web": 1})
			c.Mix.OnDry, c.Mix.DryAfter = dry, time.Minute
			w, s := mixed(c, "code", "web")
			w.options = d.options
			s["code"].lengths(slices.Repeat([]int{1000}, 100)...)
			s["web"].lengths(slices.Repeat([]int{1000}, 400)...)
			run, stop := w.start(t)
			r := verdictTest{t, w, run}.join(0, 1, 0)
			told := verdictTest{t, w, run}.request(r)
			time.Sleep(31 * time.Second)
			must(t, told())
			if n := len(w.flushes(t)); n != 1 {
				t.Errorf("flushed %d times after 31 s, want once", n)
			}
			before := readAll(t, run, 1)
			must(t, before.err)
			must(t, stop())
			w.options.FirstStepQuiet, w.options.FirstStepDocuments = 0, 0
			run, stop = w.start(t)
			after := readAll(t, run, 1)
			must(t, after.err)
			if !reflect.DeepEqual(before.batches, after.batches) {
				t.Error("the plan with an early flush does not replay")
			}
			must(t, stop())
		})
	}
}
