package loader_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/planrecord"
	"loaderd/loader/state"
)

// Documents of the previous epoch are no duplicates in the next one, even if the source's end is found after all of
// it has been read.
func TestDedupe_EarlierEpochIsNoDuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Documents.Dedupe = 1000
		c.Sources = map[string]mixture.Source{"a": {Weight: 1, Epochs: 3, Block: 2}}
		w, s := mixed(c, "a")
		for i := range uint64(5) {
			s["a"].publish(document.Document{ID: 100 + i, Content: document.Content{Tokens: documentTokens(i+1, 8)}})
		}
		run, _ := w.start(t)
		time.Sleep(time.Minute) // all documents are read
		if n := run.Stats().Sources[0].Arrived; n != 5 {
			t.Fatalf("%d documents are read", n)
		}
		_, err := run.SealSource(t.Context(), "a", "")
		must(t, err)
		if n := shares(read(t, run, state.RankID{World: 1}, 0, 0)); n[0] != 3*5*8 {
			t.Errorf("%d tokens arrived, want %d", n[0], 3*5*8)
		}
	})
}

// A run that ends with its first source stays as it is, whatever is sealed at that moment and later.
func TestSeal_AfterEndChangesNothing(t *testing.T) {
	c := config("concat")
	c.Mix.End = mixture.EndFirst
	c.Sources = sources(map[string]float64{"a": 1, "b": 1, "c": 1})
	w, s := mixed(c, "a", "b", "c")
	for _, docs := range s {
		docs.lengths(someLengths(4, 40)...)
	}
	s["b"].docs = nil // the first source to end, between the others
	run, stop := w.start(t)
	at, err := run.Seal(t.Context())
	must(t, err)
	want := read(t, run, state.RankID{World: 1}, 0, 0)
	for range 2 {
		if again, err := run.Seal(t.Context()); err != nil || again < at {
			t.Errorf("Seal = %d, %v", again, err)
		}
		if last, err := run.SealSource(t.Context(), "b", ""); err != nil || last != 0 {
			t.Errorf("b ends behind document %d, %v", last, err)
		}
		// If the plan reached b before the seal of all sources took effect, the run ended before c was sealed.
		last, err := run.SealSource(t.Context(), "c", "")
		ended := reason(err) == fault.InvalidTicket && strings.Contains(err.Error(), "the run has ended: source b is used up")
		if !ended && (err != nil || last != 40) {
			t.Errorf("c ends behind document %d, %v", last, err)
		}
		if _, err := changeMix(t, run, mixture.Change{Weights: map[string]float64{"a": 1, "b": 1, "c": 2}},
			""); reason(err) != fault.InvalidTicket || !strings.Contains(err.Error(), "b is used up, and mix.end is first") {
			t.Errorf("the mixture is changed behind the end of the run: %v", err)
		}
		must(t, stop())
		w.checkpoints.data = map[string][]byte{}
		audited, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer, nil)
		if err != nil || !audited.Ended || audited.Steps != uint64(len(want)) {
			t.Fatalf("the audit returned %+v, %v", audited, err)
		}
		run, stop = w.start(t)
		if have := read(t, run, state.RankID{World: 1}, 0, 0); len(have) != len(want) {
			t.Fatalf("%d steps, want %d", len(have), len(want))
		}
	}
}

// slowShelf delivers the documents of its streams one by one.
type slowShelf struct{ shelf }

type slowDocs struct{ *memDocs }

type slowSource struct{ blockingSource }

func (s slowShelf) Open(ctx context.Context, name string, c mixture.Source) (backend.Stream, error) {
	x, err := s.shelf.Open(ctx, name, c)
	x.Documents = slowDocs{s.shelf[name]}
	return x, err
}

func (d slowDocs) Read(ctx context.Context, from uint64) (document.Source, error) {
	s, err := d.memDocs.open(from)
	if err != nil {
		return nil, err
	}
	return queued(slowSource{s}), nil
}

func (s slowSource) Next(ctx context.Context) ([]document.Document, error) {
	time.Sleep(time.Second)
	return s.blockingSource.Next(ctx)
}

// A checkpoint is not used if it covers documents beyond a change of the mixture. A later daemon recorded the change
// because it did not use the checkpoint.
func TestCheckpoint_NotUsedBeyondMixtureChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Packing.Buckets, c.Packing.Atom = []int{4000}, 1 // no step is completed
		c.Sources = sources(map[string]float64{"a": 1, "b": 1})
		w, s := mixed(c, "a", "b")
		for _, docs := range s {
			docs.lengths(someLengths(4, 40)...)
		}
		run, stop := w.start(t)
		time.Sleep(time.Minute)
		_, err := run.Checkpoint(t.Context())
		must(t, err)
		must(t, stop())
		if len(w.checkpoints.data) == 0 {
			t.Fatal("there is no checkpoint")
		}
		before := w.checkpoints.data

		w.checkpoints.data, w.checkpoints.refuse = map[string][]byte{}, true
		w.edges = func(e *backend.Backends) { e.Sources = slowShelf{s} }
		run, stop = w.start(t)
		time.Sleep(2500 * time.Millisecond) // some documents have arrived
		_, err = changeMix(t, run, mixture.Change{Weights: map[string]float64{"a": 1, "b": 3}}, "")
		must(t, err)
		must(t, stop())

		w.checkpoints.data = before
		run, stop = w.start(t)
		time.Sleep(time.Minute)
		_, err = run.Seal(t.Context())
		must(t, err)
		want := read(t, run, state.RankID{World: 1}, 0, 0)
		must(t, stop())
		audited, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer, nil)
		if err != nil || !audited.Ended || audited.Steps != uint64(len(want)) {
			t.Errorf("the audit returned %+v, %v", audited, err)
		}
	})
}

// A source that was added through one daemon can immediately be sealed through another.
func TestSealSource_ThroughAnotherDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Sources = sources(map[string]float64{"a": 1})
		w, s := mixed(c, "a", "b", "c", "d")
		s["a"].lengths(someLengths(4, 40)...)
		cluster := newTestCluster()
		first, _ := w.join(t, cluster, "first")
		eventually(t, func() bool { return first.Info().Planned > 0 })
		second, _ := w.join(t, cluster, "second")
		eventually(t, func() bool { return second.Info().Planned > 0 })
		weights := map[string]float64{"a": 1}
		for _, name := range []string{"b", "c", "d"} {
			weights[name] = 1
			_, err := changeMix(t, first, mixture.Change{Weights: weights, Add: sources(map[string]float64{name: 1})}, "")
			must(t, err)
			if _, err := second.SealSource(t.Context(), name, ""); err != nil {
				t.Errorf("source %s: %v", name, err)
			}
		}
		if _, err := second.SealSource(t.Context(), "e", ""); reason(err) != fault.InvalidTicket {
			t.Errorf("there is no source e: %v", err)
		}
	})
}

// Sealing a source waits for the run to begin, and reports why it has not begun.
func TestSealSource_WaitsForRunToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Sources = sources(map[string]float64{"a": 1})
		w, _ := mixed(c, "a")
		release := w.plan.hold()
		run, _ := w.start(t)
		if _, err := run.SealSource(t.Context(), "a", ""); reason(err) != fault.PlanLogDown {
			t.Errorf("before the run: %v", err)
		}
		time.AfterFunc(w.options.StallTimeout/2, release)
		if _, err := run.SealSource(t.Context(), "a", ""); err != nil {
			t.Error(err)
		}
	})
}

// forgetful loses the responses to every other request.
type forgetful struct {
	*testCluster
	asked *atomic.Int32
}

func (f forgetful) Request(ctx context.Context, question []byte) ([]byte, error) {
	answer, err := f.testCluster.Request(ctx, question)
	if f.asked.Add(1)%2 == 1 {
		return nil, fault.ErrNoLeader
	}
	return answer, err
}

// A change whose response is lost is requested again, recorded once, and answered with the step before which it took
// effect.
func TestMix_LostResponseIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config("concat")
		c.Sources = sources(map[string]float64{"a": 1})
		w, s := mixed(c, "a", "b")
		w.options.Ahead = 1
		for _, docs := range s {
			docs.lengths(someLengths(4, 400)...)
		}
		cluster := newTestCluster()
		first, _ := w.join(t, cluster, "first")
		eventually(t, func() bool { return first.Info().Planned > 0 })
		second, _ := w.join(t, cluster, "second", func(e *backend.Backends) { e.Bus = forgetful{cluster, &atomic.Int32{}} })
		changes := []mixture.Change{
			{Weights: map[string]float64{"a": 1, "b": 2}, Add: sources(map[string]float64{"b": 1})},
			{Weights: map[string]float64{"a": 3, "b": 1}},
			{Weights: map[string]float64{"a": 1, "b": 1}},
			{Weights: map[string]float64{"a": 3, "b": 1}},
			{Weights: map[string]float64{"a": 1}, Remove: []string{"b"}},
		}
		var answers []uint64
		for i, change := range changes {
			step, err := changeMix(t, second, change, "")
			must(t, err)
			answers = append(answers, step)
			read(t, second, state.RankID{World: 1}, uint64(3*i), 3)
		}
		var took []uint64
		steps := uint64(0)
		w.plan.mu.Lock()
		records := slices.Clone(w.plan.records)
		w.plan.mu.Unlock()
		for _, b := range records {
			e, err := planrecord.Decode(b)
			must(t, err)
			switch e := e.(type) {
			case planrecord.StepPart:
				steps = e.Index + 1
			case planrecord.Mix:
				took = append(took, steps)
			}
		}
		if !slices.Equal(took, answers) {
			t.Errorf("the changes took effect before steps %v, the answers were %v", took, answers)
		}
	})
}
