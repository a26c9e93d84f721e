package loader_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
	"loaderd/packonline"
)

// forksAt forks a fixture's run of several sources over the same streams, and returns the fork's fixture.
func (w *fixture) forksAt(t *testing.T, s shelf, step uint64, c runconfig.Config) *fixture {
	t.Helper()
	next, err := w.tryFork(s, step, c)
	must(t, err)
	return next
}

func (w *fixture) tryFork(s shelf, step uint64, c runconfig.Config) (*fixture, error) {
	next := newFixture(c)
	next.edges = w.edges
	from := w.edgesOf()
	h, _, err := maintenance.Fork(context.Background(), from, step, "next", c)
	if err != nil {
		return nil, err
	}
	return next, maintenance.CreateFork(context.Background(),
		backend.Backends{Plan: next.plan, Checkpoints: next.checkpoints,
			Sources: s}, h)
}

// from returns the batches from a step on, renumbered from 0.
func from(batches []*assembly.Batch, step int) (out []*assembly.Batch) {
	for i, b := range batches[step:] {
		c := *b
		c.Step = uint64(i)
		out = append(out, &c)
	}
	return out
}

// ends seals all sources of a fixture's run and returns its steps.
func (w *fixture) ends(t *testing.T) []*assembly.Batch {
	t.Helper()
	run, stop := w.start(t)
	_, err := run.Seal(t.Context())
	must(t, err)
	out := read(t, run, state.RankID{World: 1}, 0, 0)
	must(t, stop())
	return out
}

func (w *fixture) audited(t *testing.T, s shelf, steps int) {
	t.Helper()
	a, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer, nil)
	if err != nil || a.Steps != uint64(steps) || !a.Ended {
		t.Errorf("the audit returned %+v, %v; want %d steps", a, err, steps)
	}
}

// grandMixture returns a run with all features of a mixture: a shuffled source, a source that ends after two epochs,
// a source with its own packing, and a ramp.
func grandMixture() (runconfig.Config, *fixture, shelf) {
	c := config("bfd")
	c.Steps.Rows, c.Documents.Dedupe = 2, 5
	c.Sources = sources(map[string]float64{"code": 1, "math": 1, "web": 2, "book": 1})
	c.Sources["math"] = mixture.Source{Weight: 1, Epochs: 3, Block: 2}
	c.Sources["book"] = mixture.Source{Weight: 1, Epochs: 2, Block: 4}
	own := config("splice").Packing
	c.Sources["code"] = mixture.Source{Weight: 1, Epochs: 1, Packing: &own, Attention: runconfig.AttentionRow}
	c.Mix.Schedule = []mixture.Point{{Tokens: 600, Ramp: 1500, Weights: map[string]float64{"code": 2, "math": 1, "web": 1,
		"book": 1}}}
	w, s := mixed(c, "book", "code", "math", "web", "forum")
	fill(s)
	s["book"].lengths(someLengths(7, 30)...)
	s["forum"].lengths(someLengths(9, 60)...)
	s["book"].sealed = true
	for _, docs := range s { // some documents are duplicates
		for i := range docs.docs {
			docs.docs[i].ID = uint64(i*i)%50 + 1
		}
	}
	w.options.Ahead, w.options.CheckpointSteps = 1, 7
	return c, w, s
}

// A fork of several sources with its parent's configuration makes the same steps as the parent, token by token. This
// holds for shuffled sources, later epochs, a ramp, mixture changes, a paused source and a source with its own
// packing. It also holds for a fork of the fork, and does not depend on the parent's checkpoints.
func TestForkSources_ContinuesLikeParent(t *testing.T) {
	bubble(t, "forks", func(t *testing.T) {
		c, w, s := grandMixture()
		c.Mix = w.config.Mix
		c.Mix.OnDry, c.Mix.DryAfter = mixture.DryShare, 2*time.Second
		w.config = c
		run, stop := w.start(t)
		want := read(t, run, state.RankID{World: 1}, 0, 12)
		mixes, err := changeMix(t, run, mixture.Change{Weights: map[string]float64{"web": 2, "forum": 3, "math": 1,
			"code": 1}, Remove: []string{"book"},
			Add: sources(map[string]float64{"forum": 3})}, "alice")
		must(t, err)
		want = append(want, read(t, run, state.RankID{World: 1}, 12, 8)...)
		synctest.Wait() // wait until the demand is planned, because a control takes effect after it
		seals := run.Info().Planned
		_, err = run.SealSource(t.Context(), "math", "")
		must(t, err)
		want = append(want, read(t, run, state.RankID{World: 1}, 20, 50)...) // forum has no documents left and is paused
		if !slices.ContainsFunc(run.Stats().Sources, func(x state.SourceStats) bool { return x.Paused }) {
			t.Error("no source rests")
		}
		synctest.Wait()
		ends := run.Info().Planned
		_, err = run.Seal(t.Context())
		must(t, err)
		want = append(want, read(t, run, state.RankID{World: 1}, uint64(len(want)), 0)...)
		must(t, stop())
		checkpoints := w.checkpoints.data
		for step := 0; step <= len(want); step += 1 + step%5 {
			w.checkpoints.data = map[string][]byte{}
			if step%2 == 0 {
				w.checkpoints.data = checkpoints
			}
			fork := w.forksAt(t, s, uint64(step), c)
			rest, whole := from(want, step), true
			for _, next := range []uint64{mixes, seals, ends} { // controls after the fork point do not apply to the fork
				if whole && uint64(step) < next {
					rest, whole = rest[:next-uint64(step)], false
				}
			}
			plans := func(w *fixture) (out []*assembly.Batch) {
				if whole {
					return w.ends(t)
				}
				run, stop := w.start(t)
				defer stop()
				return read(t, run, state.RankID{World: 1}, 0, len(rest))
			}
			if have := plans(fork); !reflect.DeepEqual(have, rest) {
				t.Fatalf("forked at step %d of %d: %d steps differ from %d of the parent", step, len(want), len(have), len(rest))
			}
			if whole {
				fork.audited(t, s, len(rest))
				must(t, fork.restarts(t, rest))
			}
			half := len(rest) / 2
			again := fork.forksAt(t, s, uint64(half), c)
			rest = from(rest, half)
			if have := plans(again); !reflect.DeepEqual(have, rest) {
				t.Fatalf("the fork at step %d of the fork at step %d makes other steps", half, step)
			}
		}
	})
}

// restarts compares the steps that an ended run serves after a restart without a checkpoint.
func (w *fixture) restarts(t *testing.T, want []*assembly.Batch) error {
	w.checkpoints.data = map[string][]byte{}
	run, stop := w.start(t)
	if again := read(t, run, state.RankID{World: 1}, 0, 0); !reflect.DeepEqual(again, want) {
		return fmt.Errorf("%d steps after a restart differ from %d before", len(again), len(want))
	}
	eventually(t, func() bool { return !run.Stats().Replaying })
	return stop()
}

// A fork of several sources has other packing, weights and sources. It plans what its parent's steps before it do not
// hold, and every later document once per epoch.
func TestForkSources_OtherConfigurationPlansRestOnce(t *testing.T) {
	c, w, s := grandMixture()
	parent := w.ends(t)
	epochs := map[string]int{"book": 2, "code": 1, "math": 3, "web": 1, "forum": 1}
	for _, step := range []int{0, 1, 17, len(parent) / 2, len(parent)} {
		next := c
		next.Packing, next.Steps.Rows, next.Documents.Dedupe = config("concat").Packing, 3, 9
		next.Packing.Buckets = []int{24}
		next.Sources = maps.Clone(c.Sources)
		next.Sources["code"] = mixture.Source{Weight: 5, Epochs: 1}
		next.Sources["forum"] = mixture.Source{Weight: 1, Epochs: 1}
		next.Mix = w.config.Mix
		next.Mix.Schedule = nil
		fork := w.forksAt(t, s, uint64(step), next)
		half := fork.ends(t)
		fork.audited(t, s, len(half))
		third := fork.forksAt(t, s, uint64(len(half)/2), fork.config)
		seen := map[string]int{}
		uses(parent[:step], seen)
		uses(half[:len(half)/2], seen)
		uses(third.ends(t), seen)
		for i, x := range headerOf(t, third).Sources {
			docs := s[x.Name].docs
			for k, d := range docs {
				skipped := 0 // a duplicate within the window is dropped
				n := seen[fmt.Sprint(plan.Ref(i, uint64(k+1)), "/", 0)]
				for at := range d.Len() {
					if other := seen[fmt.Sprint(plan.Ref(i, uint64(k+1)), "/", at)]; other != n {
						t.Fatalf("forked at step %d: token %d of document %d of %s occurs %d times, the first one %d times",
							step, at, k+1, x.Name, other, n)
					}
				}
				if skipped = epochs[x.Name] - n; skipped < 0 || skipped > 0 && len(docs) > 50 && !twice(docs, k) {
					t.Errorf("forked at step %d: document %d of %s occurs %d times, want %d", step, k+1, x.Name, n, epochs[x.Name])
				}
			}
		}
	}
}

// twice reports whether a document has the id of one of the nine documents before it.
func twice(docs []document.Document, k int) bool {
	return slices.ContainsFunc(docs[max(0, k-9):k], func(d document.Document) bool { return d.ID == docs[k].ID })
}

func headerOf(t *testing.T, w *fixture) planrecord.Header {
	t.Helper()
	h, err := planview.ReadHeader(t.Context(), w.plan)
	must(t, err)
	return h
}

// A fork whose configuration omits a source plans the documents taken from that source, and no further ones.
func TestForkSources_OmittedSourceEndsAtFork(t *testing.T) {
	c, w, s := grandMixture()
	parent := w.ends(t)
	next := c
	next.Mix = mixture.Mix{OnDry: c.Mix.OnDry, End: c.Mix.End}
	next.Mix.OnDry, next.Mix.End = mixture.DryWait, mixture.EndAll
	next.Sources = maps.Clone(c.Sources)
	delete(next.Sources, "web")
	fork := w.forksAt(t, s, 20, next)
	h := headerOf(t, fork)
	web := slices.IndexFunc(h.Sources, func(x plan.SourceBegin) bool { return x.Name == "web" })
	taken := h.Parent.Sources[web].Taken
	have := fork.ends(t)
	most := uint64(0)
	for _, b := range slices.Concat(parent[:20], have) {
		for _, row := range b.Pieces {
			for _, x := range row {
				if plan.RefSource(x.Doc) == web {
					most = max(most, plan.RefSequence(x.Doc))
				}
			}
		}
	}
	if most == 0 || most > taken || taken > 60 {
		t.Errorf("document %d of web came, and %d were taken", most, taken)
	}
	fork.audited(t, s, len(have))
	run, stop := fork.start(t)
	eventually(t, func() bool { return len(run.Stats().Sources) > web })
	if x := run.Stats().Sources[web]; !x.Removed {
		t.Errorf("web is %+v", x)
	}
	must(t, stop())
	next.Sources["web"] = c.Sources["web"] // the source continues at its position
	back := fork.forksAt(t, s, 3, next)
	if x := headerOf(t, back).Parent.Sources[web]; x.Taken != taken || x.Config != nil {
		t.Errorf("web goes on at %+v", x)
	}
	last := uint64(0)
	for _, b := range back.ends(t) {
		for _, row := range b.Pieces {
			for _, x := range row {
				if plan.RefSource(x.Doc) == web {
					last = max(last, plan.RefSequence(x.Doc))
				}
			}
		}
	}
	if last < 125 {
		t.Errorf("web ends with document %d", last)
	}
}

// Summarize returns the state of a fork's sources, with and without a checkpoint.
func TestSummarize_ReturnsSourcesOfFork(t *testing.T) {
	c, w, s := grandMixture()
	w.ends(t)
	c.Mix, c.Sources = mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}, maps.Clone(c.Sources)
	delete(c.Sources, "web")
	fork := w.forksAt(t, s, 20, c)
	for _, served := range []bool{false, true} {
		var checkpoint []byte
		if served {
			fork.ends(t)
			checkpoint = fork.checkpoints.data[fork.checkpoints.names()[0]]
		}
		have, err := maintenance.Summarize(t.Context(), fork.plan, checkpoint)
		must(t, err)
		for _, x := range have.Sources {
			if !x.Sealed || x.Last != uint64(len(s[x.Name].docs)) || x.Removed != (x.Name == "web") {
				t.Errorf("served %v: a source is %+v", served, x)
			}
		}
		if have.Ended != served || !have.Sealed || len(have.Sources) != 4 {
			t.Errorf("served %v: %+v", served, have)
		}
	}
}

// The shares of a fork follow its own schedule at the number of tokens that were taken before it.
func TestForkSources_FollowsOwnSchedule(t *testing.T) {
	c, w, s := grandMixture()
	w.ends(t)
	next := c
	next.Mix = w.config.Mix
	next.Mix.Schedule = []mixture.Point{{Tokens: 10, Weights: map[string]float64{"book": 0, "code": 0, "math": 0,
		"web": 1}}}
	run, stop := w.forksAt(t, s, 30, next).start(t)
	eventually(t, func() bool { return len(run.Stats().Sources) == 4 })
	for _, x := range run.Stats().Sources {
		if want := map[string]float64{"web": 1}[x.Name]; x.Target != want {
			t.Errorf("the share of %s is to be %v, want %v", x.Name, x.Target, want)
		}
	}
	must(t, stop())
}

// Find in a fork returns the rows of the fork's steps, whatever epochs of the document were planned before.
func TestFind_InForkReturnsItsRows(t *testing.T) {
	_, w, s := grandMixture()
	w.ends(t)
	fork := w.forksAt(t, s, 25, w.config)
	want := map[uint64]map[uint64]int32{}
	for _, b := range fork.ends(t) {
		for _, row := range b.Pieces {
			for _, x := range row {
				if want[x.Doc] == nil {
					want[x.Doc] = map[uint64]int32{}
				}
				want[x.Doc][b.Step] += x.Length
			}
		}
	}
	for i, x := range headerOf(t, fork).Sources {
		for k := range s[x.Name].docs {
			have, ref := map[uint64]int32{}, plan.Ref(i, uint64(k+1))
			must(t, maintenance.FindRows(t.Context(), fork.plan, ref,
				func(step *plan.Step, _ int, pieces []packonline.Piece) error {
					for _, x := range pieces {
						have[step.Index] += x.Length
					}
					return nil
				}))
			if len(have)+len(want[ref]) > 0 && !maps.Equal(have, want[ref]) {
				t.Errorf("document %d of %s is found in steps %v, it is in %v", k+1, x.Name, have, want[ref])
			}
		}
	}
}

// A fork needs the documents of its steps and later ones. It can be created, and serves its steps, after all other
// documents are purged.
func TestForkSources_WorksAfterPurge(t *testing.T) {
	c := mixedConfig()
	c.Steps.Rows, c.Mix = 1, mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}
	w, s := mixed(c, "code", "math", "web")
	for _, docs := range s {
		docs.lengths(someLengths(8, 600)...)
	}
	w.options.CheckpointSteps = 10
	run, stop := w.start(t)
	read(t, run, state.RankID{World: 1}, 0, 150)
	must(t, stop())
	checkpoints := maps.Clone(w.checkpoints.data) // the newest covers the last step
	run, stop = w.start(t)
	step := run.Info().Planned
	want := read(t, run, state.RankID{World: 1}, step, 60)
	must(t, stop())
	w.checkpoints.data = checkpoints
	h := headerOf(t, w.forksAt(t, s, step, c))
	for i, x := range h.Sources {
		have := h.Parent.Sources[i]
		if x.Name == "math" && have.From != 1 || x.Name != "math" && (have.From < 20 || have.From > have.Taken) {
			t.Errorf("of %s %d documents were taken, and it is needed from %d on", x.Name, have.Taken, have.From)
		}
		s[x.Name].first = have.From
	}
	fork := w.forksAt(t, s, step, c)
	run, stop = fork.start(t)
	if have := read(t, run, state.RankID{World: 1}, 0, 60); !reflect.DeepEqual(have, from(want, 0)) {
		t.Error("the fork makes other steps without the documents before")
	}
	if oldest := run.Info().Oldest; oldest != 0 {
		t.Errorf("step %d is the oldest one", oldest)
	}
	must(t, stop())
	s["web"].first++ // one document too many
	if _, err := w.tryFork(s, step, c); reason(err) != fault.DocumentLost ||
		!strings.Contains(err.Error(), "fork at a later step") {
		t.Errorf("a document that waits is purged: %v", err)
	}
	w.checkpoints.data = map[string][]byte{}
	if _, err := w.tryFork(s, step, c); reason(err) != fault.DocumentLost ||
		!strings.Contains(err.Error(), "takes documents of source code from 1 on") {
		t.Errorf("forked without checkpoints: %v", err)
	}
}

// A run whose sources are all sealed and empty ends immediately, also after a restart.
func TestEnd_SealedEmptySourcesEndImmediately(t *testing.T) {
	c := config("bfd")
	c.Sources = sources(map[string]float64{"code": 1, "web": 1})
	w, s := mixed(c, "code", "web")
	s["code"].sealed, s["web"].sealed = true, true
	for range 2 {
		run, stop := w.start(t)
		if have := read(t, run, state.RankID{World: 1}, 0, 0); len(have) > 0 {
			t.Errorf("%d steps of no documents", len(have))
		}
		must(t, stop())
	}
}

// A fork plans what its parent dropped at the end, after the same steps.
func TestForkSources_PlansDroppedRemainder(t *testing.T) {
	c := mixedConfig()
	c.Steps.Last, c.Steps.Rows, c.Mix = runconfig.LastDrop, 7, mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}
	w, s := mixed(c, "code", "math", "web")
	fill(s)
	parent := w.ends(t)
	whole := 0
	for name, docs := range s {
		for _, d := range docs.docs {
			whole += d.Len() * int(c.Sources[name].Epochs)
		}
	}
	n := shares(parent)
	if n[0]+n[1]+n[2] == whole {
		t.Fatal("nothing was dropped")
	}
	c.Steps.Last = runconfig.LastPad
	for _, step := range []int{3, len(parent) - 1, len(parent)} {
		have := w.forksAt(t, s, uint64(step), c).ends(t)
		if rest := from(parent, step); len(have) <= len(rest) || len(rest) > 0 && !reflect.DeepEqual(have[:len(rest)], rest) {
			t.Errorf("forked at step %d: %d steps, and not %d as the parent and more", step, len(have), len(rest))
		}
		if n := shares(append(parent[:step:step], have...)); n[0]+n[1]+n[2] != whole {
			t.Errorf("forked at step %d: %d tokens come of %d", step, n[0]+n[1]+n[2], whole)
		}
	}
}

// A fork of a run with one source can add sources: it plans the rest of that source, and all documents of the added
// ones.
func TestFork_AddsSources(t *testing.T) {
	c := config("bfd")
	w, s := mixed(c, plantest.Source, "web")
	s[plantest.Source].lengths(someLengths(1, 200)...)
	s["web"].lengths(someLengths(2, 150)...)
	parent := w.ends(t)
	next := c
	next.Sources = sources(map[string]float64{plantest.Source: 1, "web": 1})
	fork := w.forksAt(t, s, 5, next)
	seen := map[string]int{}
	uses(parent[:5], seen)
	uses(fork.ends(t), seen)
	for source, lengths := range [][]int{someLengths(1, 200), someLengths(2, 150)} {
		for i, n := range lengths {
			for k := range n {
				if got := seen[fmt.Sprint(plan.Ref(source, uint64(i+1)), "/", k)]; got != 1 {
					t.Fatalf("token %d of document %d of source %d is planned %d times", k, i+1, source, got)
				}
			}
		}
	}
}

func TestForkSources_RefusesInvalidConfigurations(t *testing.T) {
	c, w, s := grandMixture()
	w.config.Documents.Meta = map[string]string{"year": runconfig.MetaInt64}
	c.Documents.Meta = w.config.Documents.Meta
	steps := uint64(len(w.ends(t)))
	for what, try := range map[string]func(c runconfig.Config) (*fixture, error){
		"step 1000 is not planned": func(c runconfig.Config) (*fixture, error) { return w.tryFork(s, 1000, c) },
		"run test has tokenizer": func(c runconfig.Config) (*fixture, error) {
			c.Tokenizer.Fingerprint = "another"
			return w.tryFork(s, 2, c)
		},
		"could not decode, by documents.meta.year: int64": func(c runconfig.Config) (*fixture, error) {
			c.Documents.Meta = map[string]string{"year": runconfig.MetaFloat64}
			return w.tryFork(s, 20, c)
		},
		"source book: block is 5": func(c runconfig.Config) (*fixture, error) {
			c.Sources["book"] = mixture.Source{Weight: 1, Epochs: 2, Block: 5}
			return w.tryFork(s, 20, c)
		},
		"keep the seed": func(c runconfig.Config) (*fixture, error) {
			c.Seed++
			return w.tryFork(s, 20, c)
		},
		"some of the run's buckets": func(c runconfig.Config) (*fixture, error) {
			c.Packing.Buckets = []int{24}
			return w.tryFork(s, 20, c)
		},
		"there is no stream nix": func(c runconfig.Config) (*fixture, error) {
			c.Sources["nix"] = mixture.Source{Weight: 1, Epochs: 1}
			c.Mix.Schedule = nil
			return w.tryFork(s, 20, c)
		},
		"it was deleted and created again": func(c runconfig.Config) (*fixture, error) {
			created := s["web"].stream.Created
			s["web"].stream.Created = created.Add(1)
			defer func() { s["web"].stream.Created = created }()
			return w.tryFork(s, steps, c)
		},
	} {
		next := c
		next.Mix, next.Sources = w.config.Mix, maps.Clone(c.Sources)
		if _, err := try(next); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}
