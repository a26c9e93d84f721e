package loader_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loaderd/internal/testscale"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/internal/plantest"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// measured makes the runs of a fixture measure their length without a request.
func (w *fixture) measured() {
	w.options.ForecastInterval, w.options.MeasureTokens, w.options.Ahead = time.Hour, 1<<40, 2
}

// exact waits for the exact length of a run that has not ended.
func exact(t *testing.T, run *loader.Run) uint64 {
	t.Helper()
	var l *state.Length
	eventually(t, func() bool { l = run.Info().Length; return l != nil && l.Exact })
	if l.Error != 0 || l.OpenSources != nil || run.Info().Ended {
		t.Fatalf("the length is %+v; ended: %v", l, run.Info().Ended)
	}
	return l.Steps
}

// A sealed run reports its exact number of steps, for every packing method and at every position.
func TestLength_ExactForSealedRun(t *testing.T) {
	for name, c := range goldenRuns() {
		t.Run(name, func(t *testing.T) {
			w := newFixture(c)
			w.measured()
			for i, n := range someLengths(5, 700) {
				// some documents are duplicates
				d := document.Document{ID: uint64(1 + i - i%9), Content: document.Content{Tokens: documentTokens(uint64(i+1), n)}}
				if i%31 == 0 {
					d.Skip, d.Tokens = plan.SkipEmpty, nil
				}
				w.docs.publish(d)
			}
			sealed(t, w)
		})
	}
}

// sealed seals a run after some steps and compares its length with the steps that it serves.
func sealed(t *testing.T, w *fixture) {
	t.Helper()
	for _, behind := range []int{0, 5} {
		run, stop := w.start(t)
		if behind > 0 {
			read(t, run, state.RankID{World: 1}, 0, behind)
		}
		if l := run.Length(); l != nil && l.Exact {
			t.Errorf("it is exact before the end is decided: %+v", l)
		}
		if behind > 0 {
			_, err := run.Seal(t.Context())
			must(t, err)
			steps := exact(t, run)
			if got := len(read(t, run, state.RankID{World: 1}, 0, 0)); uint64(got) != steps {
				t.Errorf("%d steps follow, and %d were measured", got, steps)
			}
			if l := run.Info().Length; !l.Exact || l.Steps != steps {
				t.Errorf("the length behind the end is %+v", l)
			}
		}
		must(t, stop())
	}
	w.options.ForecastInterval, w.options.MeasureTokens = 0, 0
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Info().Ended })
	if l := run.Info().Length; l == nil || !l.Exact || l.Steps != run.Info().Planned {
		t.Errorf("of a run that has ended the length is %+v", l)
	}
	must(t, stop())
}

// A forked run reports the exact number of its steps.
func TestLength_ExactForFork(t *testing.T) {
	w := newFixture(config("bfd"))
	w.docs.lengths(someLengths(5, 400)...)
	all := len(w.sealed(t))
	next := newFixture(w.config)
	next.docs = w.docs
	next.measured()
	h, _, err := w.fork(t, uint64(all/3), "next", next.config)
	must(t, err)
	must(t, maintenance.CreateFork(t.Context(), next.beginning(&memLowWatermarks{docs: w.docs}), h))
	run, stop := next.start(t)
	must(t, errOf(run.Seal(t.Context())))
	steps := exact(t, run)
	if got := len(read(t, run, state.RankID{World: 1}, 0, 0)); uint64(got) != steps || got >= all {
		t.Errorf("%d steps follow of %d, and %d were measured", got, all, steps)
	}
	must(t, stop())
}

// mixtures returns configurations of runs with the sources code, math and web.
func mixtures() map[string]runconfig.Config {
	out := map[string]runconfig.Config{}
	add := func(name string, change func(*runconfig.Config)) {
		c := mixedConfig()
		c.Documents.Dedupe = 20
		change(&c)
		out[name] = c
	}
	of := func(c *runconfig.Config, name string, change func(*mixture.Source)) {
		s := c.Sources[name]
		change(&s)
		c.Sources[name] = s
	}
	weights := func(code, math, web float64) map[string]float64 {
		return map[string]float64{"code": code, "math": math, "web": web}
	}
	add("epochs in a drawn order", func(*runconfig.Config) {})
	add("epochs in the order of the stream", func(c *runconfig.Config) {
		of(c, "math", func(s *mixture.Source) { s.Epochs, s.Block = 3, 0 })
	})
	add("the first ends it", func(c *runconfig.Config) { c.Mix.End = mixture.EndFirst })
	add("for ever, and the first ends it", func(c *runconfig.Config) {
		c.Mix.End = mixture.EndFirst
		of(c, "math", func(s *mixture.Source) { s.Epochs = mixture.Forever })
	})
	add("schedule", func(c *runconfig.Config) {
		c.Mix.Schedule = []mixture.Point{{Tokens: 300, Ramp: 400, Weights: weights(1, 5, 1)},
			{Tokens: 1200, Weights: weights(0, 0, 1)}, {Tokens: 4000, Weights: weights(1, 1, 1)}}
	})
	add("split, long and short ones", func(c *runconfig.Config) {
		of(c, "web", func(s *mixture.Source) { s.Split = mixture.Split{Of: 10, Take: []int{0, 6}} })
		of(c, "code", func(s *mixture.Source) { s.MinTokens, s.MaxTokens = 4, 30 })
	})
	add("packing of its own", func(c *runconfig.Config) {
		own := config("concat").Packing
		of(c, "code", func(s *mixture.Source) { s.Packing, s.Attention = &own, runconfig.AttentionRow })
	})
	add("share, last rows dropped", func(c *runconfig.Config) {
		c.Mix.OnDry, c.Mix.DryAfter, c.Steps.Last = mixture.DryShare, time.Minute, runconfig.LastDrop
	})
	return out
}

// fillLong publishes documents to each source, some of them duplicates.
func fillLong(s shelf) {
	for i, name := range slices.Sorted(maps.Keys(s)) {
		for k, n := range someLengths(uint64(3+i), 250) {
			tokens := documentTokens(uint64(k+1), n)
			for j := range tokens {
				tokens[j] += s[name].base
			}
			s[name].publish(document.Document{ID: uint64(1 + k - k%7), Content: document.Content{Tokens: tokens}})
		}
	}
}

func TestLength_ExactForSeveralSources(t *testing.T) {
	for name, c := range mixtures() {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/sealed before %v", name, before), func(t *testing.T) {
				w, s := mixed(c, "code", "math", "web")
				w.measured()
				fillLong(s)
				if !before {
					sealed(t, w)
					return
				}
				for _, docs := range s {
					docs.sealed = true
				}
				run, stop := w.start(t) // a new run over a finite corpus, without reader and seal
				steps := exact(t, run)
				if got := len(read(t, run, state.RankID{World: 1}, 0, 0)); uint64(got) != steps {
					t.Errorf("%d steps follow, and %d were measured", got, steps)
				}
				must(t, stop())
			})
		}
	}
}

// A control invalidates a measured length. No exact length is reported until it is measured again. A control during a
// measurement cancels it.
func TestLength_ControlInvalidatesMeasurement(t *testing.T) {
	c := mixedConfig()
	c.Mix.End = mixture.EndFirst
	w, s := mixed(c, "code", "math", "web")
	w.measured()
	fillLong(s)
	gate := &gatedDocs{memDocs: s["web"]}
	w.edges = func(e *backend.Backends) { e.Sources = gated{s, gate} }
	run, stop := w.start(t)
	_, err := run.Seal(t.Context())
	must(t, err)
	before := exact(t, run)
	began := gate.shut()
	_, err = changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 1, "math": 1, "web": 30}}, "")
	must(t, err)
	if l := run.Length(); l != nil && l.Exact {
		t.Errorf("behind a change of the mixture the length is %+v", l)
	}
	<-began // the next change comes during the measurement
	_, err = changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 1, "math": 1, "web": 8}}, "")
	must(t, err)
	gate.open()
	steps := exact(t, run)
	if got := len(read(t, run, state.RankID{World: 1}, 0, 0)); uint64(got) != steps || steps == before {
		t.Errorf("%d steps follow, %d were measured, and %d before the change", got, steps, before)
	}
	must(t, stop())
}

// gated is a shelf in which the stream web can be shut.
type gated struct {
	shelf
	web *gatedDocs
}

func (g gated) Open(ctx context.Context, name string, c mixture.Source) (backend.Stream, error) {
	x, err := g.shelf.Open(ctx, name, c)
	if name == "web" {
		x.Documents = g.web
	}
	return x, err
}

// gatedDocs is a document stream that blocks repeated reads while it is shut.
type gatedDocs struct {
	*memDocs
	mu    sync.Mutex
	began chan struct{} // closed when a read waits, then nil
	gate  chan struct{}
}

func (d *gatedDocs) shut() (began <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate, d.began = make(chan struct{}), make(chan struct{})
	return d.began
}

func (d *gatedDocs) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.gate)
	d.gate = nil
}

func (d *gatedDocs) Refetch(ctx context.Context, sequences []uint64, f func(document.Document)) error {
	d.mu.Lock()
	gate := d.gate
	if gate != nil && d.began != nil {
		close(d.began)
		d.began = nil
	}
	d.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d.memDocs.Refetch(ctx, sequences, f)
}

// A run without an end reports that, and an open run names its open sources. Neither is measured.
func TestLength_NotExactWithoutEnd(t *testing.T) {
	c := mixedConfig()
	c.Sources["math"] = mixture.Source{Weight: 1, Epochs: mixture.Forever, Block: 2}
	w, s := mixed(c, "code", "math", "web")
	w.measured()
	w.options.MeasureTokens = 0
	fillLong(s)
	run, stop := w.start(t)
	known := func() (l state.Length) {
		eventually(t, func() bool {
			now := run.Info().Length
			if now != nil {
				l = *now
			}
			return now != nil
		})
		return l
	}
	if l := known(); !l.Endless || l.Steps != 0 || len(l.OpenSources) != 3 {
		t.Errorf("with a source that is read for ever the length is %+v", l)
	}
	must(t, errOf(run.SealSource(t.Context(), "math", "")))
	must(t, errOf(run.SealSource(t.Context(), "code", "")))
	if err := run.Measure(t.Context()); reason(err) != fault.InvalidTicket ||
		!strings.Contains(err.Error(), "[web] may get more") {
		t.Errorf("measured while web is open: %v", err)
	}
	must(t, errOf(run.Seal(t.Context())))
	if l := known(); !l.Endless || l.Exact || l.OpenSources != nil {
		t.Errorf("with a sealed source that is read for ever the length is %+v", l)
	}
	if err := run.Measure(t.Context()); reason(err) != fault.InvalidTicket || !strings.Contains(err.Error(), "no end") {
		t.Errorf("measured without an end: %v", err)
	}
	must(t, errOf(changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 1, "web": 0},
		Remove: []string{"math"}}, "")))
	if l := known(); l.Idle || l.Steps == 0 || l.OpenSources != nil {
		t.Errorf("with a sealed source that has no weight the length is %+v", l)
	}
	must(t, errOf(changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 1, "web": 1}}, "")))
	if l := known(); l.Exact || l.Endless || l.Idle || l.Error == 0 || l.Steps == 0 {
		t.Errorf("without being asked for it is measured: %+v", l)
	}
	must(t, run.Measure(t.Context()))
	steps := exact(t, run)
	if got := len(read(t, run, state.RankID{World: 1}, 0, 0)); uint64(got) != steps {
		t.Errorf("%d steps follow, and %d were measured", got, steps)
	}
	must(t, run.Measure(t.Context())) // an ended run has nothing to measure
	must(t, stop())
}

func errOf[T any](_ T, err error) error { return err }

// A run that keeps up with a growing stream reports the length that it would have if it ended now, and updates it.
func TestLength_UpdatedForGrowingStream(t *testing.T) {
	for name, c := range map[string]runconfig.Config{"one": config("bfd"), "several": mixedConfig()} {
		w, s := mixed(c, "code", "math", "web")
		streams := []*memDocs{s["code"], s["math"], s["web"]}
		if len(c.Sources) == 1 {
			w = newFixture(c)
			streams = []*memDocs{w.docs}
		}
		w.measured()
		w.options.Ahead = 1 << 20
		run, stop := w.start(t)
		last := uint64(0)
		for round := range 6 {
			for _, docs := range streams {
				docs.lengths(someLengths(uint64(round), 40)...)
			}
			eventually(t, func() bool { // the mixture waits for the first dry source
				stats := run.Stats()
				taken := stats.Cursor
				for _, x := range stats.Sources {
					if int(x.Taken) == 40*(round+1) {
						taken = uint64(40 * (round + 1))
					}
				}
				return taken >= uint64(40*(round+1))
			})
			must(t, errOf(run.Flush(t.Context()))) // triggers an estimate
			eventually(t, func() bool { l := run.Length(); return l != nil && l.Steps > last })
			last = run.Length().Steps
		}
		l := run.Length()
		must(t, errOf(run.Seal(t.Context())))
		got := len(read(t, run, state.RankID{World: 1}, 0, 0))
		if off := math.Abs(float64(got) - float64(l.Steps)); off > float64(l.Error) {
			t.Errorf("%s: %d steps follow where %+v was reported", name, got, l)
		}
		must(t, stop())
	}
}

// At the beginning, when many documents arrive, estimates follow quickly; later they are rare.
func TestLength_FirstEstimatesFollowQuickly(t *testing.T) {
	bubble(t, "soon", func(t *testing.T) {
		w := newFixture(config("bfd"))
		w.options.ForecastInterval = time.Hour
		run, stop := w.start(t)
		for round := range 4 {
			w.docs.lengths(someLengths(uint64(round), 400)...)
			time.Sleep(time.Duration(1500<<round) * time.Millisecond)
			want := uint64(len(w.docs.docs)) / 40
			if l := run.Length(); l == nil || l.Steps < want {
				t.Errorf("of %d documents the length is %+v", len(w.docs.docs), l)
			}
		}
		must(t, stop())
	})
}

// An estimate is at least the number of planned steps, even if few documents were published since and no new estimate
// was made.
func TestLength_AtLeastPlannedSteps(t *testing.T) {
	w := newFixture(config("bfd"))
	w.options.ForecastInterval = time.Hour
	w.docs.lengths(slices.Repeat([]int{8}, 4000)...) // 500 steps
	run, stop := w.start(t)
	eventually(t, func() bool { l := run.Length(); return l != nil && l.Steps > 400 })
	w.docs.lengths(slices.Repeat([]int{8}, 300)...)
	read(t, run, state.RankID{World: 1}, 0, 525)
	if i := run.Info(); i.Planned < 525 || i.Length.Steps < i.Planned {
		t.Errorf("%d steps are planned, the length is %+v", i.Planned, i.Length)
	}
	must(t, stop())
}

// Documents published after an estimate cause a new one soon, however rare estimates are.
func TestLength_NewDocumentsTriggerEstimate(t *testing.T) {
	bubble(t, "grows", func(t *testing.T) {
		w := newFixture(config("bfd"))
		w.options.ForecastInterval = time.Hour
		w.docs.lengths(someLengths(1, 40)...)
		run, stop := w.start(t)
		time.Sleep(90 * time.Minute)
		for round := range 3 {
			w.docs.lengths(someLengths(uint64(round), 400)...)
			time.Sleep(5 * time.Second)
			want := uint64(len(w.docs.docs)) / 40
			if l := run.Length(); l == nil || l.Steps < want {
				t.Errorf("of %d documents the length is %+v", len(w.docs.docs), l)
			}
			time.Sleep(90 * time.Minute)
		}
		must(t, stop())
	})
}

// A follower reports the leader's length, and requests a measurement from the leader.
func TestLength_FollowerReportsLengthOfLeader(t *testing.T) {
	w, cluster := newFixture(config("bfd")), newTestCluster()
	w.measured()
	w.options.MeasureTokens = 0
	w.docs.lengths(someLengths(5, 600)...)
	w.join(t, cluster, "first")
	second, _ := w.join(t, cluster, "second")
	eventually(t, func() bool {
		l := second.Length()
		return l != nil && len(l.OpenSources) == 1 && l.OpenSources[0] == plantest.Source
	})
	must(t, errOf(second.Seal(t.Context())))
	eventually(t, func() bool { l := second.Length(); return l != nil && l.OpenSources == nil })
	must(t, second.Measure(t.Context()))
	steps := exact(t, second)
	if got := len(read(t, second, state.RankID{World: 1}, 0, 0)); uint64(got) != steps {
		t.Errorf("%d steps follow, and %d were measured", got, steps)
	}
}

// The true length is within the error of an estimate in 19 of 20 cases, and the error is small enough to be useful.
// The samples are a small part of the documents, the simulated part of the run is small, and later documents are
// longer.
func TestLength_EstimateIsWithinItsError(t *testing.T) {
	defer loader.Effort(600, 1500)()
	seeds := testscale.Of(6, 40)
	missed, worst := map[string]int{}, map[string]float64{}
	for seed := range uint64(seeds) {
		draw := rand.New(rand.NewPCG(seed, 1))
		for _, name := range []string{"one", "several", "the first ends it"} {
			c := mixedConfig()
			if name == "one" {
				c = config("bfd")
			}
			c.Seed = seed
			c.Packing.Buckets, c.Packing.Pool, c.Packing.MaxAge, c.Steps.Rows, c.Shuffle.Window = []int{512}, 64, 500, 4, 32
			if name == "the first ends it" {
				c.Mix.End = mixture.EndFirst
				c.Mix.Schedule = []mixture.Point{{Tokens: 200_000, Ramp: 300_000, Weights: map[string]float64{"code": 3, "math": 1,
					"web": 1}}}
			}
			w, docs := newFixture(c), []*memDocs(nil)
			if len(c.Sources) > 1 {
				var s shelf
				w, s = mixed(c, "code", "math", "web")
				docs = append(docs, s["code"], s["math"], s["web"])
			} else {
				docs = append(docs, w.docs)
			}
			for _, d := range docs {
				publishUnlike(d, draw)
				d.sealed = true
			}
			w.measured()
			w.options.MeasureTokens = 0
			run, stop := w.start(t)
			read(t, run, state.RankID{World: 1}, 0, 1+int(seed%3)*60)
			if len(c.Sources) == 1 {
				must(t, errOf(run.Seal(t.Context())))
			}
			var l state.Length
			eventually(t, func() bool {
				now := run.Length()
				if now != nil && now.OpenSources == nil {
					l = *now
				}
				return l.Steps > 0
			})
			must(t, run.Measure(t.Context()))
			steps := exact(t, run)
			must(t, stop())
			if off := math.Abs(float64(l.Steps) - float64(steps)); off > float64(l.Error) {
				missed[name]++
				worst[name] = max(worst[name], off/float64(l.Error))
				if off > 2*float64(l.Error) {
					t.Logf("%s, seed %d: %d±%d, and it is %d", name, seed, l.Steps, l.Error, steps)
				}
			}
			if l.Error > steps/3 || l.Error < 2 {
				t.Errorf("%s, seed %d: an error of %d for %d steps", name, seed, l.Error, steps)
			}
		}
	}
	t.Logf("missed %v of %d, by %v errors at the worst", missed, seeds, worst)
	// A miss in 1 of 20 estimates is correct. At which moment an estimate is made is random; more misses than this occur
	// in one of a million runs of the test.
	most := testscale.Of(7, 13)
	for name, n := range missed {
		if n > most || worst[name] > 3 {
			t.Errorf("%s: the truth is not within the error in %d of %d cases, by %.1f errors at the worst", name, n, seeds,
				worst[name])
		}
	}
}

var zeros = make([]int32, 1<<13)

// publishUnlike publishes documents of very different lengths. The mean length doubles from the first to the last
// ones.
func publishUnlike(d *memDocs, draw *rand.Rand) {
	n := 4000 + draw.IntN(8000)
	docs := make([]document.Document, n)
	for i := range docs {
		length := math.Exp(draw.NormFloat64()*0.9+4) * (1 + float64(i)/float64(n))
		docs[i] = document.Document{Content: document.Content{Tokens: zeros[:1+min(int(length), len(zeros)-1)]}}
	}
	d.publish(docs...)
}
