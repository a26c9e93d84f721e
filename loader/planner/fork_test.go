package planner_test

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// does applies one input: a control or, if c is nil, the next document.
func (b *sourcesRun) does(t *rapid.T, c planrecord.Control) {
	if c == nil {
		b.next(t)
		return
	}
	b.applier.Record(c)
	b.settle(t)
}

// fork plans a run again from its inputs up to a step. It returns a fork at that step with another configuration, the
// parent's run up to the step, and the number of inputs before the step.
func (b *sourcesRun) fork(t *rapid.T, inputs []planrecord.Control, step uint64,
	c runconfig.Config) (child *sourcesRun, before *sourcesRun, at int) {
	before = &sourcesRun{header: b.header, tokens: map[uint64]int{}}
	var err error
	if before.applier, err = planner.NewApplier(b.header); err != nil {
		t.Fatal(err)
	}
	before.tell()
	p := before.applier.Planner
	p.PrepareFork(step)
	before.settle(t)
	for p.Next() < step {
		before.does(t, inputs[at])
		at++
	}
	var more []plan.SourceBegin
	if _, comes := c.Sources["new"]; comes && !slices.ContainsFunc(p.Infos(), func(s plan.SourceInfo) bool {
		return s.Name == "new"
	}) {
		more = append(more, plan.SourceBegin{Name: "new", Start: 2})
	}
	lowWatermark := p.LowWatermark()
	forked, err := p.Fork(c, more)
	if err != nil && (strings.Contains(err.Error(), "packing.buckets") ||
		strings.Contains(err.Error(), "steps.schedule")) {
		t.Skip(err) // the packing of the fork does not fit to the row lengths of controls, or of a source of a control
	}
	if err != nil {
		t.Fatal(err)
	}
	if forked.LowWatermark() != lowWatermark {
		t.Fatalf("the fork's floor is %s, its parent's %s", forked.LowWatermark(), lowWatermark)
	}
	h := planrecord.Header{Config: c, Run: "child", ID: strings.Repeat("0", 32)}
	h.Sources, h.Parent, h.State = forked.ForkState(b.header, step)
	child = &sourcesRun{header: written(t, h), tokens: map[uint64]int{}}
	if child.applier, err = planner.NewApplier(child.header); err != nil {
		t.Fatal(err)
	}
	if state := child.applier.Planner.AppendState(nil); !bytes.Equal(state, h.State) {
		t.Fatal("the child begins with another state than it inherited")
	}
	for i, x := range child.header.Infos() {
		if x.From < x.Start {
			t.Fatalf("document %d of source %d is needed, which begins with %d", x.From, i, x.Start)
		}
	}
	child.tell()
	return child, before, at
}

// tell restores the missing packing hints of documents.
func (b *sourcesRun) tell() {
	for _, ref := range b.applier.Planner.MissingHints() {
		b.applier.Planner.RestoreHints(ref, b.named(ref).Documents())
	}
}

// written returns a header as its records encode it.
func written(t *rapid.T, h planrecord.Header) planrecord.Header {
	state := h.State
	h, parts := h.SplitState(300)
	e, err := planrecord.Decode(planrecord.Encode(h))
	if err != nil {
		t.Fatal(err)
	}
	h = e.(planrecord.Header)
	order := h.Validator()
	for i, b := range parts {
		if err := order.CheckEntry(planrecord.Term{}); err == nil {
			t.Fatalf("a term comes before part %d", i)
		}
		e, err := planrecord.Decode(b)
		if err != nil || len(b) > 300 {
			t.Fatalf("part %d of %d bytes: %v", i, len(b), err)
		}
		if err := order.CheckEntry(e); err != nil {
			t.Fatal(err)
		}
		if err := order.CheckEntry(e); err == nil {
			t.Fatalf("part %d is duplicated", i)
		}
		h.State = append(h.State, e.(planrecord.ForkState).State...)
	}
	if err := order.CheckEntry(planrecord.Term{}); err != nil || !bytes.Equal(h.State, state) {
		t.Fatalf("%d bytes of state are read as %d: %v", len(state), len(h.State), err)
	}
	return h
}

// sameSteps compares steps with those of a parent, except their numbers and the places that only certain steps have.
// A fork of an ended run still has the documents that the final seal drops. Its low watermarks may pass them; those
// of the parent's steps before that seal do not.
func sameSteps(t *rapid.T, have, want []plan.Step) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("%d steps, want %d", len(have), len(want))
	}
	for i, s := range have {
		s.Index, s.SourcePositions = want[i].Index, want[i].SourcePositions
		if s.LowWatermark.Reaches(want[i].LowWatermark) {
			s.LowWatermark = want[i].LowWatermark
		}
		if !reflect.DeepEqual(s, want[i]) {
			t.Fatalf("step %d is %+v, want %+v", i, s, want[i])
		}
	}
}

// drawRun plans a run to its end and returns its inputs.
func drawRun(t *rapid.T, c runconfig.Config,
	sources []plan.SourceBegin) (run *sourcesRun, inputs []planrecord.Control) {
	run = newSourcesRun(t, c, sources)
	run.settle(t)
	added := 0
	input := func(control planrecord.Control) {
		inputs = append(inputs, control)
		run.does(t, control)
	}
	for range rapid.IntRange(0, 150).Draw(t, "documents") {
		if control := run.drawControl(t, &added); control != nil {
			input(control.PlaceAfter(run.applier.Planner.Clock()))
		}
		if _, _, ok := run.applier.Planner.NextDocument(); ok && !run.applier.Ended {
			input(nil)
		}
	}
	run.finish(input, func() { input(nil) })
	return run, inputs
}

// A fork with the configuration of its parent makes the same steps as the parent from the forked step on, for all
// earlier controls. So does a fork of the fork.
func TestFork_ContinuesLikeParent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, sources := drawSources(t)
		c.Mix.Schedule = drawSchedule(t, c)
		run, inputs := drawRun(t, c, sources)
		want := run.steps
		for generation := range 2 {
			step := rapid.IntRange(0, len(want)).Draw(t, "step")
			child, _, at := run.fork(t, inputs, uint64(step), c)
			inputs = inputs[at:]
			child.settle(t)
			for i, control := range inputs {
				if i%7 == generation {
					child.restart(t)
				}
				child.does(t, control)
			}
			want = want[step:]
			sameSteps(t, child.steps, want)
			run = child
		}
	})
}

func drawSchedule(t *rapid.T, c runconfig.Config) []mixture.Point {
	if !rapid.Bool().Draw(t, "schedule") {
		return nil
	}
	p := mixture.Point{Tokens: mixture.Tokens(rapid.IntRange(0, 800).Draw(t, "tokens")),
		Ramp: mixture.Tokens(rapid.IntRange(0, 800).Draw(t, "ramp")), Weights: map[string]float64{}}
	for name := range maps.Keys(c.Sources) {
		p.Weights[name] = float64(len(c.Sources) + int(name[1]-'0'))
	}
	return []mixture.Point{p}
}

// A fork with another configuration plans every token of its parent's documents that is not in a step before the
// fork, and continues with the documents after them. So does a fork of the fork.
func TestFork_OtherConfigurationPlansRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, sources := drawSources(t)
		run, inputs := drawRun(t, c, sources)
		emitted := map[token]int{}
		taken := map[uint64]int{}
		lossless, once := true, true
		labels := map[token]int{}
		learn := func(steps []plan.Step) {
			more, _ := labelled(t, steps, run.loss, nil)
			for x, n := range more {
				labels[x] += n
			}
		}
		for generation := range 2 {
			step := uint64(rapid.IntRange(0, len(run.steps)).Draw(t, "step"))
			next := drawChanged(t, run.header)
			child, before, _ := run.fork(t, inputs, step, next)
			for _, s := range run.steps[:step] {
				count(emitted, s)
			}
			for ref, n := range before.tokens {
				taken[ref] += n
			}
			lossless, once = lossless && exact(before.applier), once && onceOnly(run.header.Config, before.applier.Planner)
			learn(run.steps[:step])
			child.settle(t)
			added := 3 * (generation + 1) // the maximum
			var more []planrecord.Control
			input := func(control planrecord.Control) {
				more = append(more, control)
				child.does(t, control)
			}
			for i := range rapid.IntRange(0, 60).Draw(t, "more documents") {
				if control := child.drawControl(t, &added); control != nil {
					input(control.PlaceAfter(child.applier.Planner.Clock()))
				}
				if i%5 == 0 && !child.applier.Ended {
					child.restart(t)
				}
				if _, _, ok := child.applier.Planner.NextDocument(); ok && !child.applier.Ended {
					input(nil)
				}
			}
			if !child.applier.Ended {
				child.finish(input, func() { input(nil) })
			}
			run, inputs = child, more
		}
		for _, s := range run.steps {
			count(emitted, s)
		}
		for ref, n := range run.tokens {
			taken[ref] += n
		}
		counts, packed := run.applier.Planner.Counts()
		if have := counts.Tokens - packed.Repeated + packed.Dropped + counts.LeftTokens; have != run.applier.UsedTokens ||
			run.applier.Planner.BufferedTokens() != 0 {
			t.Fatalf("%d tokens were taken, %d were emitted", run.applier.UsedTokens, have)
		}
		learn(run.steps)
		if once && onceOnly(run.header.Config, run.applier.Planner) {
			for ref, n := range taken {
				evenly(t, labels, ref, run.named(ref), n)
			}
		}
		if !lossless || !exact(run.applier) {
			return
		}
		for ref, n := range taken {
			sum, at := 0, int32(0)
			for _, x := range run.named(ref).Documents() {
				first := emitted[token{ref, at}]
				for range x.Length {
					if n := emitted[token{ref, at}]; n != first {
						t.Fatalf("token %d of document %d of source %d occurred %d times, the first of its document %d times", at,
							plan.RefSequence(ref), plan.RefSource(ref), n, first)
					}
					delete(emitted, token{ref, at})
					at++
				}
				sum += first * x.Length
			}
			if sum != n {
				t.Fatalf("%d tokens of document %d of source %d arrived, %d were taken", sum, plan.RefSequence(ref),
					plan.RefSource(ref), n)
			}
		}
		if len(emitted) > 0 {
			t.Fatalf("tokens arrived that were not taken: %v", emitted)
		}
	})
}

// exact reports whether every token is in steps exactly once.
func exact(a *planner.Applier) bool {
	counts, packed := a.Planner.Counts()
	return packed.Dropped+packed.Repeated+counts.LeftTokens == 0
}

// token is a token of a document.
type token struct {
	ref uint64
	at  int32
}

func count(tokens map[token]int, s plan.Step) {
	for _, row := range s.Rows {
		for _, x := range row {
			for i := range x.Length {
				tokens[token{x.Doc, x.Start + i}]++
			}
		}
	}
}

// drawChanged draws a configuration for a fork of a run: another packing, other weights, added and removed sources.
func drawChanged(t *rapid.T, h planrecord.Header) runconfig.Config {
	next := plantest.Configs(rapid.SampledFrom(packonline.Methods()).Draw(t, "another method")).Draw(t,
		"another configuration")
	share := next.Mix.Share
	next.Seed, next.Mix = h.Config.Seed, h.Config.Mix
	next.Mix.Share = share
	next.Sources = map[string]mixture.Source{}
	change := rapid.Bool().Draw(t, "change the mixture")
	for name, s := range h.Config.Sources {
		s.Packing, s.Attention = nil, ""
		if change {
			s.Weight++
		}
		next.Sources[name] = s
	}
	if change && len(next.Sources) > 1 && rapid.Bool().Draw(t, "leave one out") {
		delete(next.Sources, slices.Min(slices.Collect(maps.Keys(next.Sources))))
	}
	if _, there := next.Sources["new"]; change && !there && rapid.Bool().Draw(t, "one more") {
		next.Sources["new"] = mixture.Source{Weight: 1, Epochs: 1}
	}
	if rapid.Bool().Draw(t, "pack as before") {
		next.Packing, next.Steps, next.Shuffle = h.Config.Packing, h.Config.Steps, h.Config.Shuffle
		for name, s := range next.Sources {
			s.Packing, s.Attention = h.Config.Sources[name].Packing, h.Config.Sources[name].Attention
			next.Sources[name] = s
		}
	}
	next.Documents.MultiplePerMessage, next.Documents.MaxTokens = h.Config.Documents.MultiplePerMessage,
		h.Config.Documents.MaxTokens
	if len(next.Validate()) > 0 {
		t.Skip()
	}
	return next
}

// FuzzForkState restores a fork from arbitrary bytes. The result is an error, or a working planner whose encoded
// state equals the input.
func FuzzForkState(f *testing.F) {
	c := plantest.Config("bfd")
	c.Mix = mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndAll}
	c.Sources = map[string]mixture.Source{"a": {Weight: 1, Epochs: 1}, "b": {Weight: 2, Epochs: 2, Block: 2}}
	sources := []plan.SourceBegin{{Name: "a", Start: 1}, {Name: "b", Start: 1, Sealed: true, Last: 20}}
	var header planrecord.Header
	for _, method := range []string{"bfd", "concat"} { // the fork keeps its rows, or packs again
		a, err := planner.NewApplier(planrecord.Header{Config: c, Sources: sources})
		if err != nil {
			f.Fatal(err)
		}
		a.Planner.PrepareFork(3)
		for a.Planner.Next() < 5 {
			source, sequence, _ := a.Planner.NextDocument()
			if _, err := a.AddDocument(mixedDocument(source, sequence)); err != nil {
				f.Fatal(err)
			}
		}
		next := c
		next.Packing.Method = method
		p, err := a.Planner.Fork(next, nil)
		if err != nil {
			f.Fatal(err)
		}
		header = planrecord.Header{Config: next}
		header.Sources, header.Parent, header.State = p.ForkState(header, 3)
		f.Add(method == "bfd", header.State)
	}
	f.Fuzz(func(t *testing.T, asBefore bool, state []byte) {
		h := header
		parent := *h.Parent
		h.State, h.Parent, parent.State = state, &parent, uint64(len(state))
		if asBefore {
			h.Config.Packing.Method = "bfd"
		}
		a, err := planner.NewApplier(h)
		if err != nil {
			return
		}
		again := h
		again.State = a.Planner.AppendState(nil)
		parent.State = uint64(len(again.State))
		if b, err := planner.NewApplier(again); err != nil || !bytes.Equal(b.Planner.AppendState(nil), again.State) {
			t.Fatalf("what it wrote is not read: %v", err)
		}
		nothing := func(planner.Ready) error { return nil }
		if err := a.ApplyPending(nothing); err != nil {
			t.Fatal(err)
		}
		if source, sequence, ok := a.Planner.NextDocument(); ok && !a.Ended {
			if _, err := a.AddDocument(mixedDocument(source, sequence)); err != nil {
				t.Fatal(err)
			}
		}
		a.Planner.Flush()
	})
}
