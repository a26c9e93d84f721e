package planner_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// Shortage equals the rows that are added before the next step: exactly with one bucket, as a lower bound with
// several. Nothing else triggers a step: the configurations have no maximum wait and no atoms of other sizes.
func TestPlanner_ShortageIsRowsBeforeNextStep(t *testing.T) {
	for _, method := range []string{"bucket", "bfd", "concat", "bucketllm", "seamless"} {
		t.Run(method, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := plantest.Configs(method).Filter(func(c runconfig.Config) bool {
					return c.Packing.Atom == 1 && !plantest.ChangesBuckets(c)
				}).Draw(t, "configuration")
				c.Steps.MaxWait = 0
				p := newPlanner(t, c)
				for _, a := range drawArrivals(t, c.Documents.CanHoldMultiple()) {
					s := p.Shortage()
					_, before := p.Counts()
					steps, err := p.Add(a)
					if err != nil {
						t.Fatal(err)
					}
					_, after := p.Counts()
					rows := int(after.Rows - before.Rows)
					switch lacks := s.Needed - s.Packed; {
					case lacks < 1:
						t.Fatalf("before document %d: %d rows needed, %d buffered", a.Sequence, s.Needed, s.Packed)
					case len(steps) > 0 && rows < lacks:
						t.Fatalf("document %d: a step came with %d rows, %d were said to lack", a.Sequence, rows, lacks)
					case len(steps) == 0 && rows >= lacks && len(c.Packing.Buckets) == 1:
						t.Fatalf("document %d: no step came with %d rows, %d were said to lack", a.Sequence, rows, lacks)
					}
				}
			})
		})
	}
}

// A planner is primed once its shuffle window is full or, without a window, once its pool is nearly full. A flush
// resets this.
func TestPlanner_Primed(t *testing.T) {
	for _, method := range packonline.Methods() {
		for _, window := range []int{0, 6} {
			t.Run(fmt.Sprintf("%s, window %d", method, window), func(t *testing.T) {
				c := plantest.Config(method)
				c.Shuffle.Window = window
				p, err := planner.New(plantest.Header(c))
				if err != nil {
					t.Fatal(err)
				}
				pool := slices.Contains(packonline.Parameters(method), "pool")
				if got, want := p.IsWarmedUp(), window == 0 && !pool; got != want {
					t.Errorf("a new planner is primed: %t, want %t", got, want)
				}
				primed := false
				for i := range 200 {
					if _, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: 5 + i%9}); err != nil {
						t.Fatal(err)
					}
					primed = primed || p.IsWarmedUp()
					if p.IsWarmedUp() && window > 0 {
						if _, n, _ := p.BufferSizes(); n < window {
							t.Fatalf("primed with %d of %d atoms in the window", n, window)
						}
					}
				}
				if !primed {
					t.Error("200 documents prime no planner")
				}
				p.Flush()
				if got, want := p.IsWarmedUp(), window == 0 && !pool; got != want {
					t.Errorf("primed after a flush: %t, want %t", got, want)
				}
			})
		}
	}
}

// With one bucket, a flush makes a step of the buffered documents whenever EarlyShortage reports Flushes.
func TestPlanner_EarlyShortage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom(packonline.Methods()).Draw(t, "method")
		c := plantest.Configs(method).Draw(t, "configuration")
		p := newPlanner(t, c)
		for _, a := range drawArrivals(t, c.Documents.CanHoldMultiple()) {
			if _, err := p.Add(a); err != nil {
				t.Fatal(err)
			}
		}
		s, least := p.EarlyShortage(), int64(math.MaxInt64)
		schedule := p.Schedule()
		for i, rows := range schedule.Rows() {
			least = min(least, int64(rows)*int64(schedule.Buckets(c)[i]))
		}
		if s.Packed < 0 || s.Packed > s.Needed || !s.Flushes && s.Packed == s.Needed || s.Flushes &&
			p.BufferedTokens() < least {
			t.Fatalf("%+v with %d tokens, a step has %d", s, p.BufferedTokens(), least)
		}
		if steps := p.Flush(); s.Flushes && len(steps) == 0 && len(schedule.Rows()) == 1 {
			t.Fatalf("%+v, and a flush made no step", s)
		}
		if again := p.EarlyShortage(); again.Flushes {
			t.Fatalf("after a flush another one makes a step: %+v", again)
		}
	})
}

// For methods that drop tokens, Flushes needs more than the tokens of a step, because they may pack more tokens into a
// row than its length.
func TestPlanner_EarlyShortageOfDroppingMethods(t *testing.T) {
	extra, trim := plantest.Config("bfd-m"), plantest.Config("splice")
	extra.Packing.Extra, trim.Packing.Splice.Fill = 8, "trim"
	for name, c := range map[string]runconfig.Config{"bfd-m": extra, "splice": trim} {
		c.Shuffle.Window = 0
		c.Packing.Buckets, c.Packing.Atom, c.Packing.Pool, c.Steps = []int{8}, 1, 16,
			runconfig.Steps{Rows: 2, Last: runconfig.LastPad}
		for n := 1; n <= 12; n++ {
			p, err := planner.New(plantest.Header(c))
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if _, err := p.Add(plan.Arrival{Sequence: uint64(i + 1), Length: 4,
					PackingHints: plan.PackingHints{Hint: plantest.Hint(uint64(i + 1))}}); err != nil {
					t.Fatal(err)
				}
			}
			if s, steps := p.EarlyShortage(), p.Flush(); s.Flushes && len(steps) == 0 {
				t.Errorf("%s: %d documents: %+v, and a flush made no step", name, n, s)
			} else if !s.Flushes && n >= 8 {
				t.Errorf("%s: %d documents: %+v", name, n, s)
			}
		}
	}
}
