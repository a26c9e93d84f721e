package loader_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"loaderd/loader"
	"loaderd/loader/assembly"
	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/maintenance"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/loader/state"
)

// shelf is the in-memory streams of several sources, by name.
type shelf map[string]*memDocs

func (s shelf) Open(_ context.Context, name string, _ mixture.Source) (backend.Stream, error) {
	docs, ok := s[name]
	if !ok {
		return backend.Stream{}, fmt.Errorf("there is no stream %s", name)
	}
	return backend.Stream{Documents: docs, LowWatermarks: &memLowWatermarks{docs: docs}}, nil
}

// mixed returns a fixture whose run reads several sources. Token k of document n of source s is s*10^7+n*1000+k.
func mixed(c runconfig.Config, names ...string) (*fixture, shelf) {
	s := shelf{}
	for i, name := range names {
		s[name] = newDocs()
		s[name].stream.Name = "DOCS_" + name
		s[name].base = int32(i) * 1e7
	}
	c.Mix.OnDry, c.Mix.End = cmpOr(c.Mix.OnDry, mixture.DryWait), cmpOr(c.Mix.End, mixture.EndAll)
	w := newFixture(c)
	w.edges = func(e *backend.Backends) { e.Sources = s }
	return w, s
}

// changeMix changes the mixture of a run and returns the first step that can differ.
func changeMix(t *testing.T, run *loader.Run, c mixture.Change, by string) (uint64, error) {
	t.Helper()
	x, err := run.Mix(t.Context(), state.MixRequest{Change: c, By: by})
	return x.Step, err
}

// changeOnce changes the mixture of a run, decided after a number of steps.
func changeOnce(t *testing.T, run *loader.Run, c mixture.Change, decided uint64, by string) (state.MixResult, error) {
	t.Helper()
	return run.Mix(t.Context(), state.MixRequest{Change: c, By: by, Decided: &decided})
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// sources returns sources with these weights that are read once.
func sources(weights map[string]float64) map[string]mixture.Source {
	out := map[string]mixture.Source{}
	for name, w := range weights {
		out[name] = mixture.Source{Weight: w, Epochs: 1}
	}
	return out
}

// mixedConfig returns a run of the sources web and code, and of math, which has two epochs.
func mixedConfig() runconfig.Config {
	c := config("bfd")
	c.Sources = sources(map[string]float64{"code": 1, "math": 1, "web": 2})
	c.Sources["math"] = mixture.Source{Weight: 1, Epochs: 2, Block: 2}
	return c
}

func fill(s shelf) {
	s["code"].lengths(someLengths(4, 90)...)
	s["math"].lengths(someLengths(5, 25)...)
	s["web"].lengths(someLengths(6, 130)...)
}

// checkTokens checks that every span of a batch has the tokens of its document.
func checkTokens(t *testing.T, b *assembly.Batch) {
	t.Helper()
	tokens := tokensOf(t, b)
	for i, row := range b.Pieces {
		at := i * b.Bucket
		for _, p := range row {
			want := int32(plan.RefSource(p.Doc))*1e7 + int32(plan.RefSequence(p.Doc))*1000 + p.Start
			if have := tokens[at]; have != want {
				t.Fatalf("step %d row %d has token %d, want %d", b.Step, i, have, want)
			}
			at += int(p.Length)
		}
	}
}

// shares returns the number of tokens of each source in batches.
func shares(batches []*assembly.Batch) map[int]int {
	out := map[int]int{}
	for _, b := range batches {
		for _, row := range b.Pieces {
			for _, p := range row {
				out[plan.RefSource(p.Doc)] += int(p.Length)
			}
		}
	}
	return out
}

// A run of several sources that is restarted after any number of steps continues the same plan. It does not depend on
// the checkpoints, or on the order in which documents of the sources arrive.
func TestMix_RestartAnywhereContinuesSamePlan(t *testing.T) {
	w, s := mixed(mixedConfig(), "code", "math", "web")
	fill(s)
	run, stop := w.start(t)
	_, err := run.Seal(t.Context())
	must(t, err)
	want := read(t, run, state.RankID{World: 1}, 0, 0)
	must(t, stop())
	tokens := 0
	for _, b := range want {
		checkTokens(t, b)
	}
	for _, n := range shares(want) {
		tokens += n
	}
	have := 0
	for name, docs := range s {
		for _, d := range docs.docs {
			have += d.Len() * int(w.config.Sources[name].Epochs)
		}
	}
	if tokens != have {
		t.Fatalf("%d tokens arrived, %d were published", tokens, have)
	}
	for _, every := range []int{0, 1, 5} {
		w, s := mixed(mixedConfig(), "web", "code", "math")
		s["code"].base, s["math"].base, s["web"].base = 0, 1e7, 2e7
		w.options.CheckpointSteps, w.options.Ahead = every, 1
		run, stop := w.start(t)
		s["web"].lengths(someLengths(6, 130)...) // all documents of one source first
		s["code"].lengths(someLengths(4, 90)...)
		s["math"].lengths(someLengths(5, 25)...)
		_, err := run.Seal(t.Context())
		must(t, err)
		must(t, stop())
		var got []*assembly.Batch
		for n := 1; len(got) < len(want); n = 1 + n%3 {
			run, stop := w.start(t)
			got = append(got, read(t, run, state.RankID{World: 1}, uint64(len(got)), min(n, len(want)-len(got)))...)
			must(t, stop())
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("checkpoint every %d: the steps differ", every)
		}
		run, stop = w.start(t)
		if again := read(t, run, state.RankID{World: 1}, 0, 0); !reflect.DeepEqual(again, want) {
			t.Fatalf("checkpoint every %d: it ends elsewhere", every)
		}
		must(t, stop())
	}
}

// Changes of the mixture during a run (weights, a source added, removed or sealed) replay to the same plan.
func TestMix_ChangesReplayToSamePlan(t *testing.T) {
	c := config("bfd")
	c.Sources = sources(map[string]float64{"code": 1, "web": 1})
	w, s := mixed(c, "code", "web", "forum")
	w.options.Ahead = 1
	for _, docs := range s {
		docs.lengths(someLengths(8, 400)...)
	}
	run, stop := w.start(t)
	got := read(t, run, state.RankID{World: 1}, 0, 5)
	step, err := changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 0, "web": 1}}, "alice")
	must(t, err)
	if planned := run.Info().Planned; step < 5 || step > planned+1 {
		t.Errorf("the change takes effect at step %d of %d", step, planned)
	}
	got = append(got, read(t, run, state.RankID{World: 1}, 5, 10)...)
	if n := shares(got[12:]); n[0] > n[1]/10 {
		t.Errorf("shares are %v without code", n)
	}
	_, err = changeMix(t, run, mixture.Change{Weights: map[string]float64{"web": 1, "forum": 1},
		Add: sources(map[string]float64{"forum": 1}), Remove: []string{"code"}}, "")
	must(t, err)
	for what, change := range map[string]mixture.Change{
		"code is no source": {Weights: map[string]float64{"code": 1, "web": 1, "forum": 1}},
		"there is no stream nix": {Weights: map[string]float64{"web": 1, "forum": 1, "nix": 1},
			Add: sources(map[string]float64{"nix": 1})},
		"all weights are 0": {Weights: map[string]float64{"web": 0, "forum": 0}},
	} {
		if _, err := changeMix(t, run, change, ""); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
		if what == "there is no stream nix" { // a dry run opens no stream
			continue
		}
		if _, err := run.Mix(t.Context(), state.MixRequest{Change: change, DryRun: true}); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("dry run: %v, want %q", err, what)
		}
	}
	got = append(got, read(t, run, state.RankID{World: 1}, 15, 10)...)
	if n := shares(got[20:]); n[2] == 0 {
		t.Errorf("shares are %v with a forum", n)
	}
	last, err := run.SealSource(t.Context(), "web", "")
	if again, err := run.SealSource(t.Context(), "web", ""); err != nil || again != last || last != 400 {
		t.Errorf("web ends behind document %d, then %d, %v", last, again, err)
	}
	must(t, err)
	if _, err := run.SealSource(t.Context(), "code", ""); reason(err) != fault.InvalidTicket {
		t.Errorf("a source that was removed is sealed: %v", err)
	}
	_, err = run.Seal(t.Context())
	must(t, err)
	got = append(got, read(t, run, state.RankID{World: 1}, 25, 0)...)
	for _, b := range got {
		for _, row := range b.Pieces {
			for k, p := range row {
				if plan.RefSource(p.Doc) == 2 { // forum is the third source
					row[k].Doc = p.Doc
				}
			}
		}
	}
	stats := run.Stats()
	must(t, stop())
	if len(stats.Sources) != 3 || stats.Sources[2].Name != "forum" || !stats.Sources[0].Removed ||
		!stats.Sources[1].Exhausted || stats.Sources[1].Arrived != 400 {
		t.Errorf("sources are %+v", stats.Sources)
	}
	audited, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer, nil)
	if err != nil || audited.Steps != uint64(len(got)) || len(audited.Controls) != 4 || !audited.Ended {
		t.Errorf("the audit returned %+v, %v", audited, err)
	}
	names := w.checkpoints.names()
	for _, checkpoint := range [][]byte{nil, w.checkpoints.data[names[0]], w.checkpoints.data[names[len(names)-1]]} {
		s, err := maintenance.Summarize(t.Context(), w.plan, checkpoint)
		must(t, err)
		if !s.Sealed || !s.Ended || len(s.Sources) != 3 || !s.Sources[0].Removed || s.Sources[1].Removed ||
			s.Sources[1].Last != 400 || s.Sources[2].Name != "forum" ||
			!s.Sources[2].Sealed || s.Sources[2].Last != 400 {
			t.Errorf("the sources of the plan are %+v", s.Sources)
		}
	}
	for _, checkpoints := range []map[string][]byte{w.checkpoints.data, {}} {
		w.checkpoints.data = maps.Clone(checkpoints)
		run, stop := w.start(t)
		if again := read(t, run, state.RankID{World: 1}, 0, 0); !reflect.DeepEqual(again, got) {
			t.Fatal("the plan does not replay")
		}
		eventually(t, func() bool { return !run.Stats().Replaying })
		must(t, stop())
	}
}

// A run begins with the document that each source's Start selects.
func TestMix_SourcesBeginAtConfiguredStart(t *testing.T) {
	c := config("concat")
	c.Sources = sources(map[string]float64{"first": 1, "new": 1, "sequence": 1, "time": 1})
	for name, start := range map[string]string{"new": "new", "sequence": "7", "time": "2026-01-01T00:00:05Z"} {
		x := c.Sources[name]
		x.Start = start
		c.Sources[name] = x
	}
	w, s := mixed(c, "first", "new", "sequence", "time")
	for _, docs := range s {
		docs.lengths(someLengths(3, 20)...)
	}
	for _, bad := range []string{"22", "soon", "0"} {
		x := w.config.Sources["sequence"]
		good := x.Start
		x.Start = bad
		w.config.Sources["sequence"] = x
		if _, err := w.open(t); err == nil || !strings.Contains(err.Error(), "start") {
			t.Errorf("start at %s: %v", bad, err)
		}
		x.Start = good
		w.config.Sources["sequence"] = x
	}
	run, stop := w.start(t)
	eventually(t, func() bool { return run.Info().HasPlan })
	var have []uint64
	for _, x := range run.Info().Sources {
		have = append(have, x.Start)
	}
	if !slices.Equal(have, []uint64{1, 21, 7, 5}) {
		t.Errorf("the run begins with documents %v", have)
	}
	must(t, stop())
	x := w.config.Sources["new"]
	x.Start = "first" // ignored after the run began
	w.config.Sources["new"] = x
	_, stop = w.start(t)
	must(t, stop())
}

// A document that the seal names and the reader does not know yet is lost only if the stream confirms it. The state of
// a stream can be seconds old, for example while a large document is transferred.
func TestSeal_LostDocumentIsConfirmedByStream(t *testing.T) {
	for _, confirms := range []bool{false, true} {
		bubble(t, fmt.Sprintf("confirmed: %v", confirms), func(t *testing.T) {
			w := newFixture(config("concat"))
			w.docs.lengths(slices.Repeat([]int{16}, 40)...)
			began := time.Now()
			w.odd(oddDocs{stuck: true, status: func(document.SourceStatus) document.SourceStatus {
				s := document.SourceStatus{DrySince: began, ConfirmedAt: began}
				if confirms {
					s.ConfirmedAt = time.Now()
				}
				return s
			}})
			run, stop := w.start(t)
			if _, err := run.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			want := fault.Reason("")
			if confirms {
				want = fault.DocumentLost
			}
			if err := stop(); reason(err) != want {
				t.Errorf("after a minute: %v, want reason %q", err, want)
			}
		})
	}
}

// A daemon and an audit refuse a plan with documents that a source no longer holds.
func TestMix_RefusesPlanWithLostDocuments(t *testing.T) {
	bubble(t, "lost", func(t *testing.T) {
		w, s := mixed(mixedConfig(), "code", "math", "web")
		fill(s)
		w.options.CheckpointSteps = 0
		run, stop := w.start(t)
		must(t, readAll(t, run, 10).err)
		must(t, stop())
		s["web"].docs = s["web"].docs[:20]
		_, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer, nil)
		if reason(err) != fault.DocumentLost ||
			!strings.Contains(err.Error(), "document 21 of source web, and its stream ends at 20") {
			t.Errorf("audit: %v", err)
		}
		_, stop = w.start(t)
		time.Sleep(10 * time.Second)
		if err := stop(); reason(err) != fault.DocumentLost {
			t.Errorf("the daemon: %v", err)
		}
	})
}

// A reader that waits for a source without documents gets that source's name.
func TestMix_StallNamesDrySource(t *testing.T) {
	bubble(t, "wait", func(t *testing.T) {
		c := config("bfd")
		c.Sources = sources(map[string]float64{"code": 1, "web": 1})
		w, s := mixed(c, "code", "web")
		w.options.StallTimeout = 20 * time.Second
		s["web"].lengths(someLengths(8, 400)...)
		s["code"].lengths(5, 5)
		run, stop := w.start(t)
		o := readAll(t, run, 0)
		if reason(o.err) != fault.SourceDry ||
			!strings.Contains(o.err.Error(), "Waiting for documents of source \"code\", 20 s") {
			t.Errorf("%v", o.err)
		}
		must(t, stop())
	})
	bubble(t, "share", func(t *testing.T) {
		c := config("bfd")
		c.Sources = sources(map[string]float64{"code": 1, "web": 1})
		c.Mix.OnDry, c.Mix.DryAfter = mixture.DryShare, 3*time.Second
		w, s := mixed(c, "code", "web")
		w.options.Ahead = 1
		s["web"].lengths(someLengths(8, 400)...)
		s["code"].lengths(5, 5)
		run, stop := w.start(t)
		got := readAll(t, run, 8)
		must(t, got.err)
		if n := shares(got.batches); n[0] != 10 || !run.Stats().Sources[0].Paused {
			t.Errorf("shares are %v, sources %+v", n, run.Stats().Sources)
		}
		s["code"].lengths(someLengths(9, 400)...)
		time.Sleep(time.Second)
		got = readAll(t, run, 20)
		must(t, got.err)
		if n := shares(got.batches[14:]); n[0] == 0 || n[1] == 0 {
			t.Errorf("shares are %v when code has documents again", n)
		}
		must(t, stop())
		w.checkpoints.data = map[string][]byte{}
		run, stop = w.start(t)
		if again := readAll(t, run, 20); !reflect.DeepEqual(again.batches, got.batches) {
			t.Error("the plan does not replay")
		}
		time.Sleep(time.Second)
		must(t, stop())
	})
}

// A source whose stream is sealed before the run begins is shuffled. A source whose stream is sealed during the run
// ends there.
func TestMix_SealedSourcesAreShuffledOrEnd(t *testing.T) {
	bubble(t, "sealed", func(t *testing.T) {
		w, s := mixed(mixedConfig(), "code", "math", "web")
		fill(s)
		s["math"].sealed = true
		run, stop := w.start(t)
		begun := readAll(t, run, 3)
		must(t, begun.err)
		for _, docs := range s {
			docs.mu.Lock()
			docs.sealed = true
			docs.mu.Unlock()
		}
		time.Sleep(time.Second)
		o := readAll(t, run, 0)
		must(t, o.err)
		epochs := map[uint64]int{}
		var order []uint64
		for _, b := range o.batches {
			for _, row := range b.Pieces {
				for _, p := range row {
					if plan.RefSource(p.Doc) == 1 {
						epochs[p.Doc]++
						order = append(order, p.Doc)
					}
				}
			}
		}
		if len(epochs) != 25 || slices.IsSorted(order[:10]) {
			t.Errorf("%d documents of math come, in the order %v", len(epochs), order)
		}
		must(t, stop())
	})
}

// Documents of each source are purged when no step and no restart needs them. Documents of a source with further
// epochs are kept.
func TestMix_PurgesDocumentsOfEachSource(t *testing.T) {
	bubble(t, "release", func(t *testing.T) {
		c := mixedConfig()
		c.Steps.Rows = 1
		w, s := mixed(c, "code", "math", "web")
		for _, docs := range s {
			docs.lengths(someLengths(8, 600)...)
		}
		w.options.Retention, w.options.CheckpointSteps = backend.RetentionPurge, 1
		run, stop := w.start(t)
		o := readAll(t, run, 300)
		must(t, o.err)
		_, err := run.Commit(t.Context(), planrecord.DefaultJob, 280)
		must(t, err)
		for i := range 3 { // older checkpoints are deleted, and what they need is purged
			must(t, readAll(t, run, 310+10*i).err)
			_, err = run.Checkpoint(t.Context())
			must(t, err)
		}
		time.Sleep(5 * time.Second)
		if code, math, web := s["code"].state().First, s["math"].state().First, s["web"].state().First; code < 20 ||
			math != 1 || web < 40 {
			t.Errorf("the first documents are %d of code, %d of math, %d of web", code, math, web)
		}
		info := run.Info()
		if info.Oldest < 64 || info.Oldest > 280 {
			t.Errorf("step %d is the oldest one", info.Oldest)
		}
		if have := read(t, run, state.RankID{World: 1}, 280, 20); !reflect.DeepEqual(have, o.batches[280:300]) {
			t.Error("steps behind the commit differ")
		}
		must(t, stop())
		run, stop = w.start(t)
		if have := read(t, run, state.RankID{World: 1}, 280, 20); !reflect.DeepEqual(have, o.batches[280:300]) {
			t.Error("steps behind the commit differ after a restart")
		}
		must(t, stop())
	})
}

// Steps with purged documents of an added source cannot be read, even if the documents of the original sources are
// present.
func TestMix_PurgeOfAddedSourceBlocksItsSteps(t *testing.T) {
	bubble(t, "release", func(t *testing.T) {
		c := mixedConfig()
		c.Steps.Rows = 1
		maps.DeleteFunc(c.Sources, func(name string, _ mixture.Source) bool { return name != "math" })
		w, s := mixed(c, "math", "web")
		for _, docs := range s {
			docs.lengths(someLengths(8, 600)...)
		}
		w.options.Retention, w.options.CheckpointSteps = backend.RetentionPurge, 1
		run, stop := w.start(t)
		added, err := changeMix(t, run, mixture.Change{Weights: map[string]float64{"math": 1, "web": 1},
			Add: sources(map[string]float64{"web": 1})}, "")
		must(t, err)
		must(t, readAll(t, run, 300).err)
		_, err = run.Commit(t.Context(), planrecord.DefaultJob, 280)
		must(t, err)
		for i := range 3 { // older checkpoints are deleted, and what they need is purged
			must(t, readAll(t, run, 310+10*i).err)
			_, err = run.Checkpoint(t.Context())
			must(t, err)
		}
		time.Sleep(5 * time.Second)
		if math, web, oldest := s["math"].state().First, s["web"].state().First, run.Info().Oldest; math != 1 || web < 20 ||
			oldest <= added || oldest > 280 {
			t.Errorf("the first documents are %d of math, %d of web, which was added at step %d, and step %d is the oldest one",
				math, web, added, oldest)
		}
		must(t, stop())
	})
}

// A source that is paused when its end is found resumes with its next epoch, even if that is read immediately.
func TestMix_PausedSourceResumesWithNextEpoch(t *testing.T) {
	bubble(t, "rest", func(t *testing.T) {
		c := config("bfd")
		c.Sources = map[string]mixture.Source{"math": {Weight: 1, Epochs: 3, Block: 2}, "web": {Weight: 1, Epochs: 1}}
		c.Mix.OnDry, c.Mix.DryAfter = mixture.DryShare, time.Second
		w, s := mixed(c, "math", "web")
		s["math"].lengths(someLengths(5, 20)...)
		s["web"].lengths(someLengths(6, 400)...)
		run, stop := w.start(t)
		got := readAll(t, run, 40)
		must(t, got.err)
		if !run.Stats().Sources[0].Paused {
			t.Fatal("math does not rest")
		}
		_, err := run.Seal(t.Context())
		must(t, err)
		all := readAll(t, run, 0)
		must(t, all.err)
		have := shares(all.batches)[0]
		want := 0
		for _, d := range s["math"].docs {
			want += 3 * d.Len()
		}
		if have != want {
			t.Errorf("%d tokens of math have arrived, want %d", have, want)
		}
		must(t, stop())
	})
}

// Documents whose hints a restart needs are retained, even if only a source with its own packing needs them.
func TestMix_RetainsDocumentsOfNeededHints(t *testing.T) {
	bubble(t, "release", func(t *testing.T) {
		c := mixedConfig()
		c.Sources["math"] = mixture.Source{Weight: 1, Epochs: 1}
		own := config("splice").Packing
		own.Buckets, own.Pool, own.MaxAge = c.Packing.Buckets, 60, 500
		c.Sources["web"] = mixture.Source{Weight: 2, Epochs: 1, Packing: &own, Attention: runconfig.AttentionRow}
		w, s := mixed(c, "code", "math", "web")
		for _, docs := range s {
			docs.lengths(someLengths(8, 3000)...)
		}
		w.options.Retention, w.options.CheckpointSteps = backend.RetentionPurge, 1000
		run, stop := w.start(t)
		must(t, readAll(t, run, 62).err)
		for range 3 { // older checkpoints are deleted
			_, err := run.Checkpoint(t.Context())
			must(t, err)
		}
		w.checkpoints.mu.Lock()
		w.checkpoints.refuse = true
		w.checkpoints.mu.Unlock()
		o := readAll(t, run, 300)
		must(t, o.err)
		_, err := run.Commit(t.Context(), planrecord.DefaultJob, 280)
		must(t, err)
		time.Sleep(5 * time.Second)
		if web := s["web"].state().First; web < 5 {
			t.Errorf("the first document is %d of web", web)
		}
		must(t, stop())
		run, stop = w.start(t)
		if have := read(t, run, state.RankID{World: 1}, 280, 20); !reflect.DeepEqual(have, o.batches[280:300]) {
			t.Error("steps behind the commit differ after a restart")
		}
		must(t, stop())
	})
}

// Uncommitted steps stay readable when a source is added to a run of one source. They did not need the documents
// purged before.
func TestMix_AddAfterPurgeKeepsUncommittedSteps(t *testing.T) {
	bubble(t, "add", func(t *testing.T) {
		c := config("bfd")
		c.Sources = sources(map[string]float64{"code": 1})
		w, s := mixed(c, "code", "web")
		for _, docs := range s {
			docs.lengths(someLengths(8, 3000)...)
		}
		w.options.Retention, w.options.CheckpointSteps = backend.RetentionPurge, 10
		run, stop := w.start(t)
		o := readAll(t, run, 100)
		must(t, o.err)
		_, err := run.Commit(t.Context(), planrecord.DefaultJob, 30)
		must(t, err)
		time.Sleep(time.Minute)
		purged := s["code"].state().First
		if purged == 1 {
			t.Fatal("nothing is purged")
		}
		readable := func(when string) {
			t.Helper()
			time.Sleep(time.Minute)
			if oldest := run.Info().Oldest; oldest > 30 {
				t.Errorf("%s: step %d is the oldest that can be read, committed are 30", when, oldest)
			}
			if trouble := run.Stats().StreamProblem; trouble != "" {
				t.Errorf("%s: %s", when, trouble)
			}
			if have := read(t, run, state.RankID{World: 1}, 30, 20); !reflect.DeepEqual(have, o.batches[30:50]) {
				t.Errorf("%s: the steps differ", when)
			}
		}
		_, err = changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 1, "web": 1},
			Add: sources(map[string]float64{"web": 1})}, "")
		must(t, err)
		readable("after the change")
		for _, when := range []string{"after a restart", "after a restart from a checkpoint behind the change"} {
			must(t, stop())
			run, stop = w.start(t)
			readable(when)
			read(t, run, state.RankID{World: 1}, 30, 170)
			_, err = run.Checkpoint(t.Context())
			must(t, err)
		}
		_, err = run.Commit(t.Context(), planrecord.DefaultJob, 150)
		must(t, err)
		time.Sleep(time.Minute)
		if now := s["code"].state().First; now <= purged {
			t.Errorf("after a commit behind the change document %d is the first, as before", now)
		}
		if oldest := run.Info().Oldest; oldest > 150 {
			t.Errorf("step %d is the oldest that can be read, committed are 150", oldest)
		}
		must(t, stop())
	})
}

// A change of the mixture that is recorded while documents are buffered takes effect after these documents. A
// restarted daemon replays to that position before it accepts the next change, even without readers. So the changes
// keep their order, and each is validated against the mixture of the changes before it.
func TestMix_ChangesAfterLastStepKeepTheirOrder(t *testing.T) {
	for _, checkpoint := range []int{0, 1} {
		bubble(t, fmt.Sprint("checkpoint every ", checkpoint), func(t *testing.T) {
			c := config("bfd")
			c.Sources = sources(map[string]float64{"code": 1, "math": 1, "web": 1})
			w, s := mixed(c, "code", "math", "web")
			w.options.Ahead, w.options.CheckpointSteps = 1, checkpoint
			for _, docs := range s {
				docs.lengths(someLengths(8, 40)...)
			}
			run, stop := w.start(t)
			// read to the last complete step, and wait for the next one, which lacks documents
			got := readAll(t, run, 0)
			if reason(got.err) != fault.SourceDry {
				t.Fatal(got.err)
			}
			_, err := changeMix(t, run, mixture.Change{Weights: map[string]float64{"math": 1, "web": 1},
				Remove: []string{"code"}}, "")
			must(t, err)
			must(t, stop())
			run, stop = w.start(t)
			if _, err := changeMix(t, run, mixture.Change{Weights: map[string]float64{"code": 1, "math": 1, "web": 1}},
				""); reason(err) != fault.InvalidTicket {
				t.Errorf("a source that was removed: %v", err)
			}
			must(t, stop())
			run, stop = w.start(t)
			_, err = changeMix(t, run, mixture.Change{Weights: map[string]float64{"math": 1, "web": 9}}, "")
			must(t, err)
			must(t, stop())
			run, stop = w.start(t)
			_, err = run.Seal(t.Context())
			must(t, err)
			all := readAll(t, run, 0)
			must(t, all.err)
			if n := len(got.batches); len(all.batches) <= n || !reflect.DeepEqual(all.batches[:n], got.batches) {
				t.Error("the steps differ")
			}
			must(t, stop())
			audited, err := maintenance.Audit(t.Context(), backend.Backends{Sources: s, Plan: w.plan}, w.config.Tokenizer, nil)
			if err != nil || len(audited.Controls) != 4 {
				t.Errorf("the audit returned %+v, %v", audited, err)
			}
		})
	}
}

// A change that is too large for a record is rejected by the daemon that receives it, and the run continues.
func TestRun_RejectsLargeControls(t *testing.T) {
	w, s := mixed(mixedConfig(), "code", "math", "web")
	fill(s)
	run, stop := w.start(t)
	phases := make([]runconfig.Phase, 1<<15)
	for i := range phases {
		phases[i] = runconfig.Phase{FromStep: int64(i), Rows: 4}
	}
	change := mixture.Change{Weights: map[string]float64{}}
	for i := range 1 << 15 {
		change.Weights[fmt.Sprint("source-", i)] = 1
	}
	_, err := run.ChangeSchedule(t.Context(), state.ScheduleRequest{Phases: phases})
	if reason(err) != fault.InvalidTicket || !strings.Contains(err.Error(), "bytes, at most 524288 are possible") {
		t.Errorf("a large schedule: %v", err)
	}
	if _, err := run.Mix(t.Context(), state.MixRequest{Change: change}); reason(err) != fault.InvalidTicket ||
		!strings.Contains(err.Error(), "at most 524288") {
		t.Errorf("a large mixture: %v", err)
	}
	if _, err := run.Filter(t.Context(), state.FilterRequest{Where: strings.Repeat("x", 2<<20)}); reason(err) !=
		fault.InvalidTicket || !strings.Contains(err.Error(), "at most 4096") {
		t.Errorf("a large filter: %v", err)
	}
	if _, err := run.Mix(t.Context(), state.MixRequest{Change: mixture.Change{Weights: map[string]float64{
		"web": 3}}}); err != nil {
		t.Error(err)
	}
	must(t, stop())
}
