package planner_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// checkMethods checks a property for every method.
func checkMethods(t *testing.T, property func(*rapid.T, runconfig.Config)) {
	for _, method := range packonline.Methods() {
		t.Run(method, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, plantest.Configs(method).Draw(t, "configuration")) })
		})
	}
}

// drawArrivals draws messages of one document. With several, it also draws messages of several documents and of a
// split document.
func drawArrivals(t *rapid.T, several bool) []plan.Arrival {
	n := rapid.IntRange(0, 80).Draw(t, "documents")
	out := make([]plan.Arrival, n)
	for i := range out {
		if several && rapid.IntRange(0, 2).Draw(t, "several") == 0 {
			out[i].Sequence = uint64(i + 1)
			for k := range rapid.IntRange(1, 6).Draw(t, "in the message") {
				x := drawPart(t, uint64(i+1)+uint64(k)*1000)
				if k > 0 && rapid.Bool().Draw(t, "a piece") {
					x.ID, x.SplitIndex = out[i].Parts[k-1].ID, out[i].Parts[k-1].SplitIndex+1
				}
				out[i].Parts = append(out[i].Parts, x)
			}
			continue
		}
		x := drawPart(t, uint64(i+1))
		out[i] = plan.Arrival{Sequence: uint64(i + 1), Length: x.Length, ID: x.ID, Skip: x.Skip, Loss: x.Loss,
			PackingHints: x.PackingHints}
	}
	return out
}

func drawPart(t *rapid.T, key uint64) plan.Part {
	x := plan.Part{Length: rapid.IntRange(1, 90).Draw(t, "tokens"), ID: uint64(rapid.IntRange(0, 12).Draw(t, "id")),
		PackingHints: plan.PackingHints{Hint: plantest.Hint(key)}}
	x.Loss = plantest.Loss(key, x.Length)
	if rapid.IntRange(0, 9).Draw(t, "skip") == 0 {
		x.Skip = rapid.SampledFrom([]plan.Skip{plan.SkipEmpty, plan.SkipUndecodable, plan.SkipMasked}).Draw(t, "reason")
		if x.Skip != plan.SkipMasked {
			x.Length, x.Loss = 0, nil
		}
	}
	return x
}

// usedTokens reports for each token of the messages whether its document is used. It compares each id with those of
// the last dedupe documents; an id includes the index of a piece in its document.
func usedTokens(arrivals []plan.Arrival, dedupe int) map[uint64][]bool {
	out := map[uint64][]bool{}
	var ids [][2]uint64
	for _, a := range arrivals {
		for _, x := range a.Documents() {
			id := [2]uint64{x.ID, uint64(x.SplitIndex)}
			if x.Skip != "" {
				id[0] = 0
			}
			twice := id[0] != 0 && slices.Contains(ids[max(0, len(ids)-dedupe):], id)
			ids = append(ids, id)
			out[a.Sequence] = append(out[a.Sequence], slices.Repeat([]bool{x.Skip == "" && !twice}, x.Length)...)
		}
	}
	return out
}

// lossOf returns the loss runs of a message.
func lossOf(a plan.Arrival) plan.LossRuns {
	var lengths []int32
	for _, x := range a.Documents() {
		lengths = x.Loss.AppendRuns(lengths, 0, int32(x.Length))
	}
	return plan.NewLossRuns(lengths)
}

func newPlanner(t *rapid.T, c runconfig.Config) *planner.Planner {
	p, err := planner.New(plantest.Header(c))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A planner that is saved and restored after every document makes the same plan as one that is not (invariant 3). No
// step holds a document below the low watermark. Every token of every used document is in a step, in rows of one
// bucket (conservation).
func TestPlanner_RestoredAtEveryDocumentMakesSamePlan(t *testing.T) {
	checkMethods(t, func(t *rapid.T, c runconfig.Config) {
		arrivals := drawArrivals(t, c.Documents.CanHoldMultiple())
		again := func(ref uint64) []plan.Part { return arrivals[ref-1].Documents() }
		flush := rapid.IntRange(-1, len(arrivals)).Draw(t, "flush behind")
		steady, restored := newPlanner(t, c), newPlanner(t, c)
		var a, b []plan.Step
		tell := func(p *planner.Planner, x plan.Arrival, out *[]plan.Step) {
			lowWatermark, known := p.LowWatermark(), len(*out)
			steps, err := p.Add(x)
			if err != nil {
				t.Fatal(err)
			}
			*out = append(*out, steps...)
			if int(x.Sequence) == flush {
				*out = append(*out, p.Flush()...)
			}
			above(t, lowWatermark, (*out)[known:])
			most := 0 // rows outside the window: of atoms and rows under construction, and of incomplete and full steps
			schedule := p.Schedule()
			for _, rows := range schedule.Rows() {
				most += 3 + rows - 1
			}
			most += c.Steps.Backlog * slices.Max(schedule.Rows())
			if _, window, queued := p.BufferSizes(); window > c.Shuffle.Window || queued > most {
				t.Fatalf("%d atoms are in the window and %d rows outside", window, queued)
			}
		}
		for _, x := range arrivals {
			tell(steady, x, &a)
			state := restored.AppendState(nil)
			restored = newPlanner(t, c)
			if rapid.Bool().Draw(t, "used") { // the restore replaces its earlier state
				for k := range rapid.IntRange(1, 9).Draw(t, "before") {
					if _, err := restored.Add(plan.Arrival{Sequence: uint64(k + 1), Length: 7, ID: uint64(k + 1)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := restored.RestoreState(state); err != nil {
				t.Fatal(err)
			}
			plantest.TellHints(restored, again)
			if again := restored.AppendState(nil); !bytes.Equal(again, state) {
				t.Fatal("a restored planner writes another state")
			}
			tell(restored, x, &b)
			if steady.LowWatermark() != restored.LowWatermark() {
				t.Fatalf("floor %s against %s", steady.LowWatermark(), restored.LowWatermark())
			}
		}
		lowWatermark, known := steady.LowWatermark(), len(a)
		a, b = append(a, steady.Seal()...), append(b, restored.Seal()...)
		above(t, lowWatermark, a[known:])
		for i, s := range a {
			above(t, s.LowWatermark, a[i+1:])
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatal("the plans differ")
		}
		counts, packed := steady.Counts()
		if c.Steps.MaxWait > 0 && counts.WaitMax > int64(c.Steps.MaxWait) {
			t.Fatalf("a row waited for %d documents", counts.WaitMax)
		}
		apart(t, a, again)
		used := usedTokens(arrivals, c.Documents.Dedupe)
		conserved(t, c, a, used, counts, packed)
		labels, masked := labelled(t, a, func(ref uint64) plan.LossRuns {
			return lossOf(arrivals[ref-1])
		}, func([]packonline.Piece) bool { return c.Attention == runconfig.AttentionRow })
		if masked != counts.MaskedTokens {
			t.Fatalf("%d tokens have no loss, the counts have %d", masked, counts.MaskedTokens)
		}
		if onceOnly(c, steady) {
			for ref, tokens := range used {
				comes(t, labels, ref, func(at int) int {
					if tokens[at] {
						return 1
					}
					return 0
				}, len(tokens), lossOf(arrivals[ref-1]))
			}
			if len(labels) > 0 {
				t.Fatalf("labels of no document: %v", labels)
			}
		}
	})
}

func above(t *rapid.T, lowWatermark plan.Position, steps []plan.Step) {
	for _, s := range steps {
		for _, x := range slices.Concat(s.Rows...) {
			if lowWatermark.Covers(x.Doc) {
				t.Fatalf("step %d holds document %d, the floor was behind %s", s.Index, x.Doc, lowWatermark)
			}
		}
	}
}

// conserved compares the tokens of a whole plan with those of its documents. Each occurs once, except tokens that the
// packer repeated or dropped, and those of rows dropped at the end.
func conserved(t *rapid.T, c runconfig.Config, steps []plan.Step, used map[uint64][]bool, counts planner.Counts,
	packed packonline.Counts) {
	got := map[string]int{}
	var slots, tokens int64
	for i, s := range steps {
		if s.Index != uint64(i) || len(s.Rows) != plantest.StepRows(c, int(s.Bucket), i, tokens) {
			t.Fatalf("step %d: index %d, %d rows of %d", i, s.Index, len(s.Rows), s.Bucket)
		}
		for _, row := range s.Rows {
			var n int64
			for _, p := range row {
				n += int64(p.Length)
				for k := range p.Length {
					got[fmt.Sprintf("%d/%d", p.Doc, p.Start+k)]++
				}
			}
			if n > int64(s.Bucket) {
				t.Fatalf("step %d: a row of %d tokens", i, n)
			}
			slots, tokens = slots+int64(s.Bucket), tokens+n
		}
	}
	var total, known, repeated, missing int64
	for doc, tokens := range used {
		for k, counts := range tokens {
			if !counts {
				continue
			}
			total++
			x := got[fmt.Sprintf("%d/%d", doc, k)]
			known += int64(x)
			repeated += int64(max(x-1, 0))
			missing += int64(max(1-x, 0))
		}
	}
	if known != tokens || total != packed.Tokens || total != tokens-packed.Repeated+packed.Dropped+counts.LeftTokens {
		t.Fatalf("%d tokens in, %d out of which %d are known, %+v, %+v", total, tokens, known, counts, packed)
	}
	exact := c.Steps.Last == runconfig.LastPad
	if exact && counts.LeftTokens != 0 || repeated > packed.Repeated || exact &&
		(repeated != packed.Repeated || missing != packed.Dropped) {
		t.Fatalf("%d tokens come again, %d never, %+v, %+v", repeated, missing, counts, packed)
	}
	if counts.Slots != slots || counts.Tokens != tokens {
		t.Fatalf("counts %+v do not match %d slots, %d tokens", counts, slots, tokens)
	}
}

// For all buffered documents, Flushes is true if Flush can make a step of them.
func TestFlushesWhereFlushMakesSteps(t *testing.T) {
	checkMethods(t, func(rt *rapid.T, c runconfig.Config) {
		p, err := planner.New(plantest.Header(c))
		if err != nil {
			rt.Fatal(err)
		}
		for _, a := range drawArrivals(rt, c.Documents.CanHoldMultiple()) {
			if _, err := p.Add(a); err != nil {
				rt.Fatal(err)
			}
		}
		flushes := p.Flushes()
		if steps := len(p.Flush()); steps > 0 && !flushes {
			rt.Fatalf("Flush makes %d steps although Flushes denies it", steps)
		}
	})
}

func TestPlanner_RefusesSequenceGap(t *testing.T) {
	h := plantest.Header(plantest.Config("concat"))
	h.Sources[0].Start = 5
	p, err := planner.New(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Add(plan.Arrival{Sequence: 6, Length: 1}); err == nil {
		t.Fatal("document 6 was taken although 5 is next")
	}
	if _, err := p.Add(plan.Arrival{Sequence: 5, Length: 1}); err != nil {
		t.Fatal(err)
	}
}

// FuzzPlannerState restores arbitrary bytes with RestoreState. The result is an error or a working planner.
func FuzzPlannerState(f *testing.F) {
	configs := fuzzConfigs()
	for i, c := range configs {
		p, err := planner.New(plantest.Header(c))
		if err != nil {
			f.Fatal(err)
		}
		var before []byte // the mixture before the last document
		for k, n := range plantest.Lengths(1, 61) {
			before = p.Mixture().AppendState(nil)
			if _, err := p.Add(plan.Arrival{Sequence: uint64(k + 1), Length: n, ID: uint64(k % 9)}); err != nil {
				f.Fatal(err)
			}
		}
		state := p.AppendState(nil)
		f.Add(uint8(i), state)
		f.Add(uint8(i), bytes.Replace(state, p.Mixture().AppendState(nil), before, 1))
		behind := slices.Clone(state)
		behind[1]-- // at document 60, while the packer has processed number 61
		f.Add(uint8(i), behind)
	}
	f.Fuzz(func(t *testing.T, i uint8, state []byte) {
		p, err := planner.New(plantest.Header(configs[int(i)%len(configs)]))
		if err != nil {
			t.Fatal(err)
		}
		if p.RestoreState(state) != nil {
			return
		}
		plantest.TellHints(p, func(ref uint64) []plan.Part {
			return []plan.Part{{PackingHints: plan.PackingHints{Hint: plantest.Hint(ref)}}}
		})
		if _, err := p.Add(plan.Arrival{Sequence: p.Cursor().Next(), Length: 3}); err != nil {
			t.Fatal(err)
		}
		p.Seal()
	})
}

// fuzzConfigs returns one configuration for each valid combination of method and atom.
func fuzzConfigs() (out []runconfig.Config) {
	for _, method := range packonline.Methods() {
		for _, atom := range []float64{0.25, 0.5, 1, 2, 4} {
			c := plantest.Config(method)
			c.Packing.Atom = atom
			if packonline.IsMultiBucket(method) {
				c.Packing.Buckets = []int{16, 32}
			}
			if len(c.Validate()) == 0 {
				out = append(out, c)
			}
		}
	}
	for _, method := range []string{"bfd", "bucket"} { // before and after a change of the row lengths
		for _, step := range []int64{2, 1 << 20} {
			c := plantest.Config(method)
			c.Steps.Schedule = []runconfig.Phase{{FromStep: step, Rows: 2, Buckets: []int{24}}}
			out = append(out, c)
		}
	}
	return out
}

// BenchmarkPlanner plans log-normal-like lengths and reports documents per second of the whole state machine.
func BenchmarkPlanner(b *testing.B) {
	for _, method := range []string{"concat", "bfd"} {
		b.Run(method, func(b *testing.B) {
			c := plantest.Config(method)
			c.Packing.Buckets, c.Packing.Pool, c.Packing.MaxAge = []int{2048}, 4096, 16384
			c.Shuffle.Window, c.Steps.Rows, c.Documents.Dedupe = 1024, 64, 100_000
			p, err := planner.New(plantest.Header(c))
			if err != nil {
				b.Fatal(err)
			}
			lengths := plantest.Lengths(1, 1<<16)
			b.ResetTimer()
			for i := range b.N {
				if _, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: 60 * lengths[i&(1<<16-1)],
					ID: uint64(i + 1)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
}
