package loader_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader"
	"loaderd/packonline"
)

// drawConfig makes any valid small configuration.
func drawConfig(t *rapid.T) loader.Config {
	c := config(rapid.SampledFrom(methods).Draw(t, "method"))
	c.Seed = rapid.Uint64().Draw(t, "seed")
	c.Packing.Buckets = []int{rapid.IntRange(2, 40).Draw(t, "length")}
	c.Packing.Pool = rapid.IntRange(1, 12).Draw(t, "pool")
	c.Packing.MaxAge = rapid.SampledFrom([]int{0, 200}).Draw(t, "max_age")
	c.Shuffle.Window = rapid.IntRange(0, 9).Draw(t, "window")
	c.Steps.Rows = rapid.IntRange(1, 5).Draw(t, "rows")
	c.Steps.Last = rapid.SampledFrom([]string{loader.LastPad, loader.LastDrop}).Draw(t, "last")
	c.Documents.Dedupe = rapid.IntRange(0, 5).Draw(t, "dedupe")
	return c
}

func drawArrivals(t *rapid.T) []loader.Arrival {
	n := rapid.IntRange(0, 80).Draw(t, "documents")
	out := make([]loader.Arrival, n)
	for i := range out {
		out[i] = loader.Arrival{Sequence: uint64(i + 1), Length: rapid.IntRange(1, 90).Draw(t, "tokens"), ID: uint64(rapid.IntRange(0, 12).Draw(t, "id"))}
		if rapid.IntRange(0, 9).Draw(t, "skip") == 0 {
			out[i] = loader.Arrival{Sequence: out[i].Sequence, Skip: rapid.SampledFrom([]loader.Skip{loader.SkipEmpty, loader.SkipUndecodable}).Draw(t, "reason")}
		}
	}
	return out
}

func newPlanner(t *rapid.T, c loader.Config) *loader.Planner {
	p, err := loader.NewPlanner(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A planner whose state is saved and restored behind every document plans what an undisturbed one plans (invariant 3), and every token
// of every used document comes out once, in rows of one bucket (conservation).
func TestPlannerRestoredAtEveryDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		arrivals := drawArrivals(t)
		drain := rapid.IntRange(-1, len(arrivals)).Draw(t, "drain behind")
		steady, restored := newPlanner(t, c), newPlanner(t, c)
		var a, b []loader.Step
		used := map[uint64]int{}
		tell := func(p *loader.Planner, x loader.Arrival, out *[]loader.Step) {
			steps, err := p.Add(x)
			if err != nil {
				t.Fatal(err)
			}
			*out = append(*out, steps...)
			if int(x.Sequence) == drain {
				*out = append(*out, p.Drain()...)
			}
		}
		for _, x := range arrivals {
			before, _ := steady.Counts()
			tell(steady, x, &a)
			after, _ := steady.Counts()
			if x.Skip == "" && after.Duplicates == before.Duplicates {
				used[x.Sequence] = x.Length
			}
			state := restored.AppendState(nil)
			restored = newPlanner(t, c)
			if rapid.Bool().Draw(t, "used") { // what it held before is gone
				for k := range rapid.IntRange(1, 9).Draw(t, "before") {
					if _, err := restored.Add(loader.Arrival{Sequence: uint64(k + 1), Length: 7, ID: uint64(k + 1)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := restored.RestoreState(state); err != nil {
				t.Fatal(err)
			}
			if again := restored.AppendState(nil); !bytes.Equal(again, state) {
				t.Fatal("a restored planner writes another state")
			}
			tell(restored, x, &b)
			if steady.Floor() != restored.Floor() {
				t.Fatalf("floor %d against %d", steady.Floor(), restored.Floor())
			}
		}
		a, b = append(a, steady.Seal()...), append(b, restored.Seal()...)
		if !reflect.DeepEqual(a, b) {
			t.Fatal("the plans differ")
		}
		counts, packed := steady.Counts()
		conserved(t, c, a, used, counts, packed)
	})
}

func conserved(t *rapid.T, c loader.Config, steps []loader.Step, used map[uint64]int, counts loader.Counts, packed packonline.Counts) {
	got := map[string]int{}
	slots, tokens := 0, 0
	for i, s := range steps {
		if s.Index != uint64(i) || len(s.Rows) != c.Steps.Rows || int(s.Bucket) != c.Packing.Buckets[0] {
			t.Fatalf("step %d: index %d, %d rows of %d", i, s.Index, len(s.Rows), s.Bucket)
		}
		for _, row := range s.Rows {
			n := 0
			for _, p := range row {
				n += int(p.Length)
				for k := range p.Length {
					got[fmt.Sprintf("%d/%d", p.Doc, p.Start+k)]++
				}
			}
			if n > int(s.Bucket) {
				t.Fatalf("step %d: a row of %d tokens", i, n)
			}
			slots, tokens = slots+int(s.Bucket), tokens+n
		}
	}
	total := 0
	for doc, n := range used {
		total += n
		for k := range n {
			if x := got[fmt.Sprintf("%d/%d", doc, k)]; x != 1 && (x != 0 || c.Steps.Last == loader.LastPad) {
				t.Fatalf("token %d of document %d comes %d times", k, doc, x)
			}
		}
	}
	if len(got) != tokens || int64(total) != int64(tokens)+counts.LeftTokens {
		t.Fatalf("%d tokens in, %d out, %d dropped at the end, %d different ones", total, tokens, counts.LeftTokens, len(got))
	}
	if counts.Slots != int64(slots) || counts.Tokens != int64(tokens) || packed.Tokens != int64(total) {
		t.Fatalf("counts %+v %+v do not match %d slots, %d tokens", counts, packed, slots, tokens)
	}
}

func TestPlannerRefusesAGap(t *testing.T) {
	p, err := loader.NewPlanner(config("concat"), 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Add(loader.Arrival{Sequence: 6, Length: 1}); err == nil {
		t.Fatal("document 6 was taken although 5 is next")
	}
	if _, err := p.Add(loader.Arrival{Sequence: 5, Length: 1}); err != nil {
		t.Fatal(err)
	}
}

// FuzzPlannerState feeds any bytes to RestoreState: an error or a planner that works.
func FuzzPlannerState(f *testing.F) {
	for _, method := range methods {
		p, err := loader.NewPlanner(config(method), 1)
		if err != nil {
			f.Fatal(err)
		}
		for i, n := range someLengths(1, 60) {
			if _, err := p.Add(loader.Arrival{Sequence: uint64(i + 1), Length: n, ID: uint64(i % 9)}); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(method, p.AppendState(nil))
	}
	f.Fuzz(func(t *testing.T, method string, state []byte) {
		c := config("bfd")
		if method == "concat" {
			c = config(method)
		}
		p, err := loader.NewPlanner(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		if p.RestoreState(state) != nil {
			return
		}
		if _, err := p.Add(loader.Arrival{Sequence: p.Cursor() + 1, Length: 3}); err != nil {
			t.Fatal(err)
		}
		p.Seal()
	})
}

// BenchmarkPlanner plans log-normal-like lengths: documents a second over the whole state machine.
func BenchmarkPlanner(b *testing.B) {
	for _, method := range methods {
		b.Run(method, func(b *testing.B) {
			c := config(method)
			c.Packing.Buckets, c.Packing.Pool, c.Packing.MaxAge = []int{2048}, 4096, 16384
			c.Shuffle.Window, c.Steps.Rows, c.Documents.Dedupe = 1024, 64, 100_000
			p, err := loader.NewPlanner(c, 1)
			if err != nil {
				b.Fatal(err)
			}
			lengths := someLengths(1, 1<<16)
			b.ResetTimer()
			for i := range b.N {
				if _, err := p.Add(loader.Arrival{Sequence: uint64(i + 1), Length: 60 * lengths[i&(1<<16-1)], ID: uint64(i + 1)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
}
