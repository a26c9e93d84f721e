package planner_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
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

// sourcesRun is a run of several sources whose documents are functions of (source, sequence).
type sourcesRun struct {
	header  planrecord.Header
	applier *planner.Applier
	taken   []uint64 // refs of used documents, in order of arrival
	tokens  map[uint64]int
	steps   []plan.Step
}

func newSourcesRun(t *rapid.T, c runconfig.Config, sources []plan.SourceBegin) *sourcesRun {
	h := planrecord.Header{Config: c, Sources: sources}
	a, err := planner.NewApplier(h)
	if err != nil {
		t.Fatal(err)
	}
	return &sourcesRun{header: h, applier: a, tokens: map[uint64]int{}}
}

// document returns the document of a source at a sequence. If messages hold several documents, some of the messages
// do.
func (b *sourcesRun) document(source int, sequence uint64) plan.Arrival {
	a := mixedDocument(source, sequence)
	if !b.header.Config.Documents.CanHoldMultiple() || sequence%4 != 1 {
		return a
	}
	whole := plan.Arrival{Source: source, Sequence: sequence}
	for k := range 1 + sequence*7%5 {
		x := mixedDocument(source, sequence+1000*k).Documents()[0]
		if k > 0 && sequence%3 > 0 { // a piece of the document before it
			x.ID, x.SplitIndex = whole.Parts[k-1].ID, whole.Parts[k-1].SplitIndex+1
		}
		whole.Parts = append(whole.Parts, x)
	}
	return whole
}

// named returns the document that a plan names ref.
func (b *sourcesRun) named(ref uint64) plan.Arrival {
	return b.document(plan.RefSource(ref), plan.RefSequence(ref))
}

func (b *sourcesRun) loss(ref uint64) plan.LossRuns { return lossOf(b.named(ref)) }

func mixedDocument(source int, sequence uint64) plan.Arrival {
	x := uint64(source)*1000003 + sequence*7919
	a := plan.Arrival{Source: source, Sequence: sequence, Length: 1 + int(x%37), ID: sequence * sequence % 7,
		PackingHints: plan.PackingHints{Hint: plantest.Hint(sequence)}}
	a.Loss = plantest.Loss(x, a.Length)
	if x%11 == 3 {
		a.Skip, a.Length = plan.SkipEmpty, 0
	}
	return a
}

// next plans the next document. It returns false if no document is wanted.
func (b *sourcesRun) next(t *rapid.T) bool {
	source, sequence, ok := b.applier.Planner.NextDocument()
	if !ok {
		return false
	}
	fed := b.applier.UsedTokens
	ready, err := b.applier.AddDocument(b.document(source, sequence))
	if err != nil {
		t.Fatal(err)
	}
	if n := int(b.applier.UsedTokens - fed); n > 0 {
		ref := plan.Ref(source, sequence)
		b.taken = append(b.taken, ref)
		b.tokens[ref] += n
	}
	b.steps = append(b.steps, ready.Steps...)
	return true
}

func (b *sourcesRun) settle(t *rapid.T) {
	if err := b.applier.ApplyPending(func(r planner.Ready) error {
		b.steps = append(b.steps, r.Steps...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// restart transfers the state to a new applier.
func (b *sourcesRun) restart(t *rapid.T) {
	c, err := planrecord.DecodeCheckpoint(b.applier.Checkpoint("f", planrecord.Tail{}).Encode())
	if err != nil {
		t.Fatal(err)
	}
	fed := b.applier.UsedTokens
	state := b.applier.Planner.AppendState(nil)
	if b.applier, err = planner.Restore(b.header, c); err != nil {
		t.Fatal(err)
	}
	for _, ref := range b.applier.Planner.MissingHints() {
		b.applier.Planner.RestoreHints(ref, b.named(ref).Documents())
	}
	b.applier.UsedTokens = fed
	if again := b.applier.Planner.AppendState(nil); !bytes.Equal(state, again) {
		t.Fatal("a restored planner writes another state")
	}
}

func drawSources(t *rapid.T) (runconfig.Config, []plan.SourceBegin) {
	c := plantest.Configs(rapid.SampledFrom(packonline.Methods()).Draw(t, "method")).Draw(t, "configuration")
	c.Mix = mixture.Mix{Share: c.Mix.Share, OnDry: mixture.DryWait,
		End: rapid.SampledFrom([]string{mixture.EndAll, mixture.EndFirst}).Draw(t, "end")}
	c.Sources = map[string]mixture.Source{}
	var sources []plan.SourceBegin
	for i := range rapid.IntRange(1, 4).Draw(t, "sources") {
		s := mixture.Source{Weight: float64(1 + i), Epochs: mixture.Epochs(rapid.IntRange(1, 3).Draw(t, "epochs")),
			Block: rapid.IntRange(0, 3).Draw(t, "block")}
		switch rapid.IntRange(0, 3).Draw(t, "more") {
		case 0:
			s.Split = mixture.Split{Of: 10, Take: []int{0, 7}}
		case 1:
			s.MinTokens, s.MaxTokens = 3, 30
		case 2:
			own := plantest.Configs(rapid.SampledFrom(packonline.Methods()).Draw(t, "own method")).Draw(t, "own packing").Packing
			own.Buckets = slices.Clone(c.Packing.Buckets[:1])
			s.Packing, s.Attention = &own, runconfig.AttentionRow
		}
		name := fmt.Sprint("s", i)
		c.Sources[name] = s
		begin := plan.SourceBegin{Name: name, Start: 1 + uint64(rapid.IntRange(0, 3).Draw(t, "start"))}
		if rapid.Bool().Draw(t, "sealed") {
			begin.Sealed, begin.Last = true, begin.Start-1+uint64(rapid.IntRange(0, 60).Draw(t, "documents"))
		}
		sources = append(sources, begin)
	}
	if len(c.Validate()) > 0 {
		t.Skip()
	}
	return c, sources
}

// drawControl draws an occasional control, or nil. It counts the sources that it adds.
func (b *sourcesRun) drawControl(t *rapid.T, added *int) planrecord.Control {
	status := b.applier.Planner.Mixture().Status()
	i := rapid.IntRange(0, len(status)-1).Draw(t, "source")
	x := status[i]
	what := rapid.IntRange(0, 30).Draw(t, "what")
	switch {
	case b.applier.Ended:
	case what == 0:
		return planrecord.Flush{}
	case what == 1 && !x.Sealed && !x.Removed:
		first := b.applier.Planner.Infos()[i].Start
		return planrecord.SealSource{Source: i, Last: first + x.Taken - 1 + uint64(rapid.IntRange(0, 20).Draw(t, "more")),
			Requester: "alice"}
	case what == 2 && !x.Removed:
		return planrecord.Rest{Source: i, Rests: !x.Paused}
	case what == 3 && *added < 3:
		*added++
		name := fmt.Sprint("added", *added)
		change := mixture.Change{Weights: map[string]float64{name: 1},
			Add: map[string]mixture.Source{name: {Weight: 1, Epochs: 1}}}
		if rapid.Bool().Draw(t, "with its own packing") {
			own := plantest.Config(rapid.SampledFrom(packonline.Methods()).Draw(t, "own method")).Packing
			own.Buckets = b.header.Config.Packing.Buckets[:1]
			change.Add[name] = mixture.Source{Weight: 1, Epochs: 1, Packing: &own, Attention: runconfig.AttentionRow}
		}
		for _, x := range status {
			if !x.Removed {
				change.Weights[x.Name] = 2
			}
		}
		if !x.Removed {
			change.Remove = []string{x.Name}
			delete(change.Weights, x.Name)
		}
		schedule := b.applier.Planner.Schedule()
		if b.header.Config.CheckChange(b.applier.Planner.Mixture(), &schedule, change) != nil {
			return nil // a phase does not have the row lengths of the source
		}
		return planrecord.Mix{Change: change, SourceBegins: []plan.SourceBegin{{Name: name, Start: 1}}}
	case what == 4:
		return b.drawSchedule(t)
	}
	return nil
}

// drawSchedule draws a change of the schedule of steps, or returns nil if the drawn one is impossible now.
func (b *sourcesRun) drawSchedule(t *rapid.T) planrecord.Control {
	now := b.applier.Planner.Schedule()
	phases := []runconfig.Phase{{Rows: rapid.IntRange(1, 6).Draw(t, "rows")}}
	counts := len(b.header.Config.Steps.Schedule) > 0 // else a fork does not count the steps of its parent
	if counts && rapid.Bool().Draw(t, "another phase") {
		phases = append(phases, runconfig.Phase{Rows: rapid.IntRange(1, 6).Draw(t, "rows of the other phase"),
			FromStep: int64(now.Steps) + int64(rapid.IntRange(1, 5).Draw(t, "from"))})
	}
	for i := range phases {
		if rapid.Bool().Draw(t, "other row lengths") {
			all := slices.Concat(b.header.Config.Packing.Buckets[:1], []int{rapid.IntRange(1, 12).Draw(t, "row length") * 4})
			slices.Sort(all)
			phases[i].Buckets = slices.Compact(all[rapid.IntRange(0, 1).Draw(t, "first"):])
		}
	}
	if _, err := b.applier.Planner.ChangedSchedule(phases); err != nil {
		return nil
	}
	return planrecord.Schedule{Phases: phases}
}

// finish ends the run: no source has documents after those that were taken. It passes each control to record, and
// calls next for each remaining document.
func (b *sourcesRun) finish(record func(planrecord.Control), next func()) {
	for i, x := range b.applier.Planner.Mixture().Status() {
		at := b.applier.Planner.Clock()
		if !x.Sealed && !x.Removed {
			record(planrecord.SealSource{Arrival: at, Source: i, Last: b.applier.Planner.Infos()[i].Start + x.Taken - 1})
		}
		if x.Paused && !x.Removed && !b.applier.Ended {
			record(planrecord.Rest{Arrival: at, Source: i})
		}
	}
	for !b.applier.Ended {
		next()
	}
}

// A planner of several sources that is restored after every document and control makes the same plan as one that is
// not. Every token of every used document is in steps once for each time that it was taken, in rows of one packing.
// No step needs a document below the preceding low watermark.
func TestPlanner_SeveralSourcesRestoredMakeSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, sources := drawSources(t)
		steady, restored := newSourcesRun(t, c, sources), newSourcesRun(t, c, sources)
		both := []*sourcesRun{steady, restored}
		record := func(control planrecord.Control) {
			control = control.PlaceAfter(steady.applier.Planner.Clock())
			e, err := planrecord.Decode(planrecord.Encode(control))
			if err != nil || !reflect.DeepEqual(e, control) {
				t.Fatalf("%+v is read as %+v, %v", control, e, err)
			}
			for _, b := range both {
				b.applier.Record(e)
				b.settle(t)
			}
		}
		for _, b := range both {
			b.settle(t)
		}
		added := 0
		for range rapid.IntRange(0, 150).Draw(t, "documents") {
			if control := steady.drawControl(t, &added); control != nil {
				record(control)
			}
			if !steady.applier.Ended {
				restored.restart(t)
				if a, b := steady.next(t), restored.next(t); a != b {
					t.Fatalf("a document is wanted: %v, restored %v", a, b)
				}
			}
		}
		steady.finish(record, func() {
			steady.next(t)
			restored.next(t)
		})
		if !reflect.DeepEqual(steady.steps, restored.steps) || !steady.applier.Ended || !restored.applier.Ended {
			t.Fatal("the plans differ")
		}
		steady.check(t)
	})
}

// check checks the steps of an ended run.
func (b *sourcesRun) check(t *rapid.T) {
	planner := b.applier.Planner
	emitted := map[uint64]int{}
	order := b.header.Validator()
	order.HasTerm, order.FullHistory = true, false
	for i := range b.steps {
		s := &b.steps[i]
		if (len(s.SourcePositions) > 0) != (s.Index%plan.SourcePositionInterval == 0) {
			t.Fatalf("step %d has %d places", s.Index, len(s.SourcePositions))
		}
		records, err := planrecord.EncodeStep(s, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		e, err := planrecord.Decode(records[0])
		if err != nil {
			t.Fatal(err)
		}
		var j planrecord.StepJoiner
		if again, err := j.Add(e); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("step %+v is read as %+v, %v", s, again, err)
		}
		for _, row := range s.Rows {
			own := map[bool]bool{}
			for _, x := range row {
				emitted[x.Doc] += int(x.Length)
				source := plan.RefSource(x.Doc)
				own[planner.Mixture().SourceConfig(source).Packing != nil] = true
				if planner.Mixture().SourceConfig(source).Packing != nil && slices.ContainsFunc(row, func(y packonline.Piece) bool {
					return plan.RefSource(y.Doc) != source
				}) {
					t.Fatalf("row %v of source %d has pieces of others", row, source)
				}
			}
		}
	}
	apart(t, b.steps, func(ref uint64) []plan.Part { return b.named(ref).Documents() })
	labels, masked := labelled(t, b.steps, b.loss, func(row []packonline.Piece) bool {
		if own := planner.Mixture().SourceConfig(plan.RefSource(row[0].Doc)); own.Packing != nil {
			return own.Attention == runconfig.AttentionRow
		}
		return b.header.Config.Attention == runconfig.AttentionRow
	})
	counts, packed := planner.Counts()
	if masked != counts.MaskedTokens {
		t.Fatalf("%d tokens have no loss, the counts have %d", masked, counts.MaskedTokens)
	}
	if onceOnly(b.header.Config, planner) {
		for ref, n := range b.tokens {
			evenly(t, labels, ref, b.named(ref), n)
		}
	}
	total := 0
	for _, n := range emitted {
		total += n
	}
	if packed.Dropped+packed.Repeated+counts.LeftTokens == 0 && !maps.Equal(emitted, b.tokens) {
		t.Fatalf("%d tokens of %d documents arrived, %d of %d were taken", total, len(emitted), b.applier.UsedTokens,
			len(b.tokens))
	}
	b.checkLoss(t)
	if have := int64(total) - packed.Repeated + packed.Dropped + counts.LeftTokens; have != b.applier.UsedTokens ||
		planner.BufferedTokens() != 0 {
		t.Fatalf("%d tokens were taken, %d were emitted", b.applier.UsedTokens, have)
	}
	var arrived, out int64
	for _, x := range planner.SourceCounts() {
		arrived += x.Arrived
		out += x.Emitted
	}
	if arrived != counts.Arrived || out != int64(total) {
		t.Fatalf("%d arrivals and %d tokens by source, %d and %d in all", arrived, out, counts.Arrived, total)
	}
}

// checkLoss checks the tokens with a loss that the mixture has counted by source. It leaves out runs with several
// documents per message, not all of which may be used.
func (b *sourcesRun) checkLoss(t *rapid.T) {
	if b.header.Config.Documents.CanHoldMultiple() {
		return
	}
	var want [mixture.MaxSources]int64
	for _, ref := range b.taken {
		if !b.header.Config.Mix.Share.CountsLoss() {
			break
		}
		if b.loss(ref) == nil {
			want[plan.RefSource(ref)] += int64(b.named(ref).Length)
		}
		for i, n := range b.loss(ref) {
			want[plan.RefSource(ref)] += int64(n) * int64(1-i%2)
		}
	}
	for i, x := range b.applier.Planner.Mixture().Status() {
		if x.LossTokens != want[i] {
			t.Fatalf("source %d has %d tokens with a loss, it reports %d", i, want[i], x.LossTokens)
		}
	}
}
