package planner_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// addDocuments passes documents of the given lengths to a planner, and returns the steps.
func addDocuments(t *testing.T, p *planner.Planner, lengths ...int) (steps []plan.Step) {
	t.Helper()
	for _, n := range lengths {
		more, err := p.Add(plan.Arrival{Sequence: p.Cursor().Next(), Length: n})
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, more...)
	}
	return steps
}

// expectOnce reports tokens of the documents that steps do not have exactly once.
func expectOnce(t *testing.T, steps []plan.Step, lengths ...int) {
	t.Helper()
	times := map[[2]int]int{}
	for _, s := range steps {
		for _, row := range s.Rows {
			for _, x := range row {
				for k := range x.Length {
					times[[2]int{int(plan.RefSequence(x.Doc)), int(x.Start + k)}]++
				}
			}
		}
	}
	for i, n := range lengths {
		for k := range n {
			if times[[2]int{i + 1, k}] != 1 {
				t.Errorf("token %d of document %d is %d times in %v", k, i+1, times[[2]int{i + 1, k}], steps)
				return
			}
		}
	}
}

func bucketPhases(buckets []int, rows int, phases ...runconfig.Phase) runconfig.Config {
	c := plantest.Config("naive")
	if len(buckets) == 1 {
		c = plantest.Config("concat")
	}
	c.Packing.Buckets, c.Packing.MaxAge, c.Shuffle.Window, c.Steps.Rows, c.Steps.Schedule = buckets, 0, 0, rows, phases
	return c
}

// Rows of 8 tokens become rows of 12 with step 2. The parts of documents in steps 0 and 1 are not repeated, and the
// tokens that waited in rows of 8 are first in the rows of 12.
func TestRowLengths_RepacksBufferedTokens(t *testing.T) {
	c := bucketPhases([]int{8}, 2, runconfig.Phase{FromStep: 2, Buckets: []int{12}, Rows: 1})
	p, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	lengths := []int{5, 50, 3, 9}
	steps := append(addDocuments(t, p, lengths...), p.Seal()...)
	type rows = [][]packonline.Piece
	want := []rows{
		{{{Doc: 1, Length: 5}, {Doc: 2, Length: 3}}, {{Doc: 2, Start: 3, Length: 8}}},
		{{{Doc: 2, Start: 11, Length: 8}}, {{Doc: 2, Start: 19, Length: 8}}},
		{{{Doc: 2, Start: 27, Length: 12}}},
		{{{Doc: 2, Start: 39, Length: 11}, {Doc: 3, Length: 1}}},
		{{{Doc: 3, Start: 1, Length: 2}, {Doc: 4, Length: 9}}},
	}
	var got []rows
	for _, s := range steps {
		got = append(got, s.Rows)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	_, packed := p.Counts()
	if packed.Documents != 4 || packed.Tokens != 67 || packed.Repeated != 0 {
		t.Errorf("%+v", packed)
	}
}

// The last tokens of two split documents are in step 0. Their first ones wait, and are split again.
func TestRowLengths_CountsSplitDocumentsOnce(t *testing.T) {
	c := plantest.Config("decompose")
	c.Packing.Buckets, c.Packing.MaxAge, c.Shuffle.Window = []int{4, 8}, 0, 0
	c.Steps.Rows, c.Steps.Table = 1, []int{2, 4}
	c.Steps.Schedule = []runconfig.Phase{{FromStep: 1, Buckets: []int{4}, Rows: 1}}
	p, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	lengths := []int{12, 12}
	steps := append(addDocuments(t, p, lengths...), p.Seal()...)
	expectOnce(t, steps, lengths...)
	if _, packed := p.Counts(); len(steps[0].Rows) != 2 || packed.Documents != 2 || packed.Truncated != 2 {
		t.Errorf("%+v in %v", packed, steps)
	}
}

// At the end of a run, padded steps may change the row lengths, or the rows of steps, while rows of other buckets wait.
func TestRowLengths_SealPlansAllRows(t *testing.T) {
	lengths := []int{31, 30, 15, 14, 7, 6, 5}
	for _, phase := range []runconfig.Phase{{FromStep: 1, Rows: 1}, {FromStep: 1, Buckets: []int{4, 32}, Rows: 2},
		{FromStep: 1, Buckets: []int{4}, Rows: 1}, {FromStep: 2, Buckets: []int{8}, Rows: 3}} {
		p, err := planner.New(plantest.Header(bucketPhases([]int{8, 16, 32}, 4, phase)))
		if err != nil {
			t.Fatal(err)
		}
		expectOnce(t, append(addDocuments(t, p, lengths...), p.Seal()...), lengths...)
	}
}

// A fork at a step that the last document completes, before a seal that changes the row lengths, plans each token
// once.
func TestRowLengths_ForkBeforeChangeInSeal(t *testing.T) {
	lengths := []int{31, 15, 8, 8}
	c := bucketPhases([]int{8, 16, 32}, 2, runconfig.Phase{FromStep: 2, Buckets: []int{4, 8}, Rows: 2})
	h := plantest.Header(c)
	h.Sources[0].Sealed, h.Sources[0].Last = true, uint64(len(lengths))
	plain, err := planner.New(h)
	if err != nil {
		t.Fatal(err)
	}
	want := addDocuments(t, plain, lengths...)
	expectOnce(t, want, lengths...)
	for _, seed := range []uint64{c.Seed, c.Seed + 1} {
		p, err := planner.New(h)
		if err != nil {
			t.Fatal(err)
		}
		p.PrepareFork(0)
		addDocuments(t, p, lengths...)
		c.Seed = seed
		forked, err := p.Fork(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		child := planrecord.Header{Config: c, Run: "child", ID: strings.Repeat("0", 32)}
		child.Sources, child.Parent, child.State = forked.ForkState(h, 0)
		a, err := planner.NewApplier(child)
		if err != nil {
			t.Fatal(err)
		}
		var steps []plan.Step
		if err := a.ApplyPending(func(r planner.Ready) error {
			steps = append(steps, slices.Clone(r.Steps)...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		expectOnce(t, steps, lengths...)
		if len(steps) != len(want) {
			t.Errorf("the fork has %d steps, its parent %d", len(steps), len(want))
		}
	}
}

// A source with its own packing keeps its row lengths, which every phase must have.
func TestRowLengths_SourceWithOwnPacking(t *testing.T) {
	c := bucketPhases([]int{8, 16}, 2, runconfig.Phase{FromStep: 2, Buckets: []int{8, 32}, Rows: 2})
	own := plantest.Config("concat").Packing
	own.Buckets = []int{8}
	source := c.Sources[plantest.Source]
	source.Packing, source.Attention = &own, runconfig.AttentionDocument
	c.Sources = map[string]mixture.Source{plantest.Source: source}
	if bad := c.Validate(); len(bad) > 0 {
		t.Fatal(bad)
	}
	p, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	lengths := []int{20, 9, 30, 7}
	steps := append(addDocuments(t, p, lengths...), p.Seal()...)
	expectOnce(t, steps, lengths...)
	if n := len(steps); n < 4 || steps[n-1].Bucket != 8 {
		t.Errorf("%v", steps)
	}
	schedule := runconfig.NewSchedule(c)
	similar := plantest.Config("splice").Packing
	similar.Buckets = []int{8}
	if err := schedule.CheckSource(c, "similar", mixture.Source{Packing: &similar}); err == nil ||
		!strings.HasPrefix(err.Error(), "phase 1 of steps.schedule, from step 2: buckets: [8 32]: want none with splice") {
		t.Errorf("a source with splice: %v", err)
	}
	own.Buckets = []int{16}
	if bad := c.Validate(); len(bad) != 1 || !strings.Contains(bad[0].Error(),
		"steps.schedule[0].buckets: [8 32]: want row lengths with the [16] of source docs") {
		t.Errorf("got %v", bad)
	}
	c.Steps.Schedule = nil
	if p, err = planner.New(plantest.Header(c)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ChangedSchedule([]runconfig.Phase{{Buckets: []int{8, 32}, Rows: 2}}); err == nil {
		t.Error("a control removes the row lengths of a source")
	}
	c.Steps.Schedule = []runconfig.Phase{{FromStep: 2, Buckets: []int{8, 32}, Rows: 2}}
	if _, err := p.Fork(c, nil); err == nil {
		t.Error("a fork removes the row lengths of a source")
	}
}

// A fork inherits the row lengths of a control if its packing can have them, and else is refused.
func TestRowLengths_ForkAfterControl(t *testing.T) {
	c := bucketPhases([]int{16}, 2)
	a, err := planner.NewApplier(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	a.Record(planrecord.Schedule{Phases: []runconfig.Phase{{Rows: 2, Buckets: []int{12}}}})
	if err := a.ApplyPending(func(planner.Ready) error { return nil }); err != nil {
		t.Fatal(err)
	}
	a.Planner.PrepareFork(1 << 20)
	addDocuments(t, a.Planner, 30, 20)
	c.Seed++
	forked, err := a.Planner.Fork(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range forked.ApplyInheritance() {
		if s.Bucket != 12 || len(s.Rows) != 2 {
			t.Errorf("%v", s)
		}
	}
	c.Packing.Method = "splice"
	if _, err := a.Planner.Fork(c, nil); err == nil || !strings.Contains(err.Error(), "steps.schedule") {
		t.Errorf("forked with splice: %v", err)
	}
}

// The largest schedule is restored: the maximum numbers of phases and of row lengths, with large numbers.
func TestRowLengths_RestoresLargestSchedule(t *testing.T) {
	var lengths, table []int
	for i := range 64 {
		lengths, table = append(lengths, 1<<16+4*i), append(table, 1<<19)
	}
	c := bucketPhases(lengths, 1<<19)
	for i := range 1023 {
		c.Steps.Schedule = append(c.Steps.Schedule, runconfig.Phase{FromStep: 1<<50 + int64(i), Buckets: lengths,
			Table: table})
	}
	if bad := c.Validate(); len(bad) > 0 {
		t.Fatal(bad[0])
	}
	p, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	again, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.RestoreState(p.AppendState(nil)); err != nil {
		t.Error(err)
	}
}

// A fork keeps a source whose row lengths the configured phases do not have, if a control has replaced these phases.
func TestRowLengths_ForkWithSourceOfReplacedPhases(t *testing.T) {
	c := bucketPhases([]int{8, 16}, 2, runconfig.Phase{FromStep: 100, Buckets: []int{8, 32}, Rows: 2})
	h := plantest.Header(c)
	own := plantest.Config("concat").Packing
	own.Buckets = []int{16}
	long := mixture.Source{Weight: 1, Epochs: 1, Packing: &own, Attention: runconfig.AttentionDocument}
	begin := plan.SourceBegin{Name: "long", Start: 1}
	a, err := planner.NewApplier(h)
	if err != nil {
		t.Fatal(err)
	}
	a.Record(planrecord.Schedule{Phases: []runconfig.Phase{{FromStep: 100, Rows: 4}}})
	a.Record(planrecord.Mix{Change: mixture.Change{Weights: map[string]float64{"docs": 1, "long": 1},
		Add: map[string]mixture.Source{"long": long}}, SourceBegins: []plan.SourceBegin{begin}})
	if err := a.ApplyPending(func(planner.Ready) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, seed := range []uint64{c.Seed, c.Seed + 1} {
		restored, err := planner.NewApplier(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := restored.Planner.RestoreState(a.Planner.AppendState(nil)); err != nil {
			t.Fatal(err)
		}
		restored.Planner.PrepareFork(0)
		c.Seed = seed
		forked, err := restored.Planner.Fork(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		child := planrecord.Header{Config: c, Run: "child", ID: strings.Repeat("0", 32)}
		child.Sources, child.Parent, child.State = forked.ForkState(h, 0)
		if _, err := planner.NewApplier(child); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// A header with a valid checksum whose configuration has no schedule is an error, for the decoder and the planner.
func TestHeader_RejectsInvalidSchedule(t *testing.T) {
	for want, change := range map[string]func(*runconfig.Steps){
		"steps.rows": func(s *runconfig.Steps) { s.Rows = 0 },
		"steps.schedule[0].rows": func(s *runconfig.Steps) {
			s.Schedule = []runconfig.Phase{{FromStep: 3}}
		},
		"steps.schedule[0].buckets": func(s *runconfig.Steps) {
			s.Schedule = []runconfig.Phase{{FromStep: 3, Rows: 4, Buckets: []int{8, 16}}}
		},
		"steps.tokens": func(s *runconfig.Steps) { s.Tokens = 3 },
	} {
		h := plantest.Header(plantest.Config("bfd"))
		h.Format, h.Algorithm, h.ID = planrecord.FormatVersion, planner.AlgorithmVersion, strings.Repeat("0", 32)
		if _, err := planrecord.Decode(planrecord.Encode(h)); err != nil {
			t.Fatal(err)
		}
		change(&h.Config.Steps)
		if _, err := planrecord.Decode(planrecord.Encode(h)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("decoded: %v, want %s", err, want)
		}
		if _, err := planner.New(h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("planned: %v, want %s", err, want)
		}
	}
}

// ownSource returns a source with its own packing, into rows of 16 tokens.
func ownSource() mixture.Source {
	packing := plantest.Config("concat").Packing
	packing.Buckets = []int{16}
	return mixture.Source{Weight: 1, Epochs: 1, Packing: &packing, Attention: runconfig.AttentionRow}
}

// apply applies a control, restores the planner, and returns the steps that the control completes.
func apply(t *testing.T, h planrecord.Header, a *planner.Applier, c planrecord.Control) []plan.Step {
	t.Helper()
	a.Record(c.PlaceAfter(a.Planner.Clock()))
	steps := applyPending(t, a)
	checkpoint := a.Checkpoint("f", planrecord.Tail{})
	restored, err := planner.Restore(h, checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	if again := restored.Planner.AppendState(nil); !bytes.Equal(again, checkpoint.Planner) {
		t.Fatal("a restored planner writes another state")
	}
	*a = *restored
	return steps
}

// removeOwnSource returns a run whose source with its own packing is removed after nine documents, and its steps.
func removeOwnSource(t *testing.T, added bool) (h planrecord.Header, a *planner.Applier, steps []plan.Step) {
	t.Helper()
	c := bucketPhases([]int{8, 16}, 2)
	c.Documents.Dedupe = 0
	h = plantest.Header(c)
	begin := plan.SourceBegin{Name: "own", Start: 1}
	if !added {
		h.Config.Sources = map[string]mixture.Source{plantest.Source: c.Sources[plantest.Source], "own": ownSource()}
		h.Sources = append(h.Sources, begin)
	}
	a, err := planner.NewApplier(h)
	if err != nil {
		t.Fatal(err)
	}
	if added {
		apply(t, h, a, planrecord.Mix{Change: mixture.Change{Weights: map[string]float64{plantest.Source: 1, "own": 1},
			Add: map[string]mixture.Source{"own": ownSource()}}, SourceBegins: []plan.SourceBegin{begin}})
	}
	if _, err := a.Planner.ChangedSchedule([]runconfig.Phase{{Rows: 2, Buckets: []int{8, 32}}}); err == nil ||
		!strings.Contains(err.Error(), "row lengths with the [16] of source own") {
		t.Fatalf("with the source: %v", err)
	}
	steps = addNext(t, a, 9)
	return h, a, append(steps, apply(t, h, a, planrecord.Mix{Change: mixture.Change{Remove: []string{"own"},
		Weights: map[string]float64{plantest.Source: 1}}})...)
}

// emptyOwnSource adds documents until no document of the removed source is buffered, and returns the steps.
func emptyOwnSource(t *testing.T, h planrecord.Header, a *planner.Applier,
	phases []runconfig.Phase) (steps []plan.Step) {
	t.Helper()
	for range 40 {
		if _, err := a.Planner.ChangedSchedule(phases); err == nil {
			return steps
		}
		steps = append(steps, apply(t, h, a, planrecord.Flush{})...)
		steps = append(steps, addNext(t, a, 1)...)
	}
	t.Fatal("documents of the removed source are buffered after 40 others")
	return nil
}

// A removed source with its own packing no longer determines the row lengths once its documents are in steps.
func TestRowLengths_AfterRemovalOfSource(t *testing.T) {
	for name, added := range map[string]bool{"configured": false, "added": true} {
		t.Run(name, func(t *testing.T) {
			h, a, steps := removeOwnSource(t, added)
			change := planrecord.Schedule{Phases: []runconfig.Phase{{Rows: 2, Buckets: []int{8, 32}}}}
			_, err := a.Planner.ChangedSchedule(change.Phases)
			if err == nil || !strings.Contains(err.Error(), "the source is removed, and its buffered documents") {
				t.Fatalf("with documents of the removed source: %v", err)
			}
			steps = append(steps, emptyOwnSource(t, h, a, change.Phases)...)
			steps = append(steps, apply(t, h, a, change)...)
			for _, buckets := range [][]int{{8, 16}, {4, 8}} {
				from := len(steps)
				steps = append(steps, addNext(t, a, 12)...)
				if from == len(steps) {
					t.Error("no step")
				}
				for _, s := range steps[from:] {
					if !slices.Contains(change.Phases[0].Buckets, int(s.Bucket)) {
						t.Errorf("a row of %d tokens", s.Bucket)
					}
				}
				change = planrecord.Schedule{Phases: []runconfig.Phase{{Rows: 2, Buckets: buckets}}}
				steps = append(steps, apply(t, h, a, change)...)
			}
			tokens := int64(0)
			for _, s := range append(steps, a.Planner.Seal()...) {
				for _, row := range s.Rows {
					tokens += plan.RowTokens(row)
				}
			}
			if tokens != a.UsedTokens || tokens == 0 {
				t.Errorf("%d tokens in steps, %d used", tokens, a.UsedTokens)
			}
		})
	}
}

// A fork after phases without the row lengths of a removed source keeps the source removed, or is refused.
func TestRowLengths_ForkAfterRemovalOfSource(t *testing.T) {
	for _, added := range []bool{false, true} {
		for _, change := range []func(*runconfig.Config){
			func(*runconfig.Config) {},
			func(c *runconfig.Config) { c.Seed++ },
			func(c *runconfig.Config) { // the source is one of the fork
				c.Sources = map[string]mixture.Source{plantest.Source: c.Sources[plantest.Source], "own": ownSource()}
				c.Mix.End = mixture.EndFirst
			},
		} {
			h, a, _ := removeOwnSource(t, added)
			phases := []runconfig.Phase{{Rows: 2, Buckets: []int{8, 32}}}
			emptyOwnSource(t, h, a, phases)
			apply(t, h, a, planrecord.Schedule{Phases: phases})
			addNext(t, a, 12)
			a.Planner.PrepareFork(a.Planner.Next())
			c := h.Config
			change(&c)
			forked, err := a.Planner.Fork(c, nil)
			if c.Mix.End == mixture.EndFirst {
				if err == nil || !strings.Contains(err.Error(), "row lengths with the [16] of source own") {
					t.Errorf("added %v: a fork with the source: %v", added, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			child := planrecord.Header{Config: c, Run: "child", ID: strings.Repeat("0", 32)}
			child.Sources, child.Parent, child.State = forked.ForkState(h, a.Planner.Next())
			b, err := planner.NewApplier(child)
			if err != nil {
				t.Fatal(err)
			}
			applyPending(t, b)
			if steps := addNext(t, b, 12); len(steps) == 0 || steps[0].Bucket == 16 {
				t.Errorf("added %v: steps of the fork are %v", added, steps)
			}
		}
	}
}
