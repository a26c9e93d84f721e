package history_test

import (
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/history"
	"loaderd/loader/diagnosis"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

func sum[T int | int64 | uint64 | float64](all []T) (n T) {
	for _, x := range all {
		n += x
	}
	return n
}

// header returns the plan header of a run with two sources and two row lengths.
func header() planrecord.Header {
	c := runconfig.Config{Sources: map[string]mixture.Source{"code": {Weight: 1}, "web": {Weight: 3}}}
	c.Packing.Buckets = []int{64, 128}
	return planrecord.Header{Run: "r", Config: c, Sources: []plan.SourceBegin{{Name: "code"}, {Name: "web"}}}
}

// part returns a step of one row with a piece of each source.
func part(step uint64, bucket int32, code, web int32) planrecord.StepPart {
	row := []packonline.Piece{{Doc: plan.Ref(0, step+1), Start: int32(step % 2), Length: code},
		{Doc: plan.Ref(1, step+1), Length: web}}
	return planrecord.StepPart{Step: plan.Step{Index: step, Bucket: bucket, Rows: [][]packonline.Piece{row}}, Parts: 1}
}

func take(t *testing.T, s *history.Steps, entries ...planrecord.Entry) {
	t.Helper()
	for _, e := range entries {
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
}

// A history covers a run of any length with at most the maximum number of points, and keeps the newest steps
// unmerged.
func TestSteps_CoverRunWithBoundedPoints(t *testing.T) {
	for _, steps := range []int{0, 1, 599, 600, 601, 1023, 1024, 1025, 2047, 2048, 2049, 5000, 100_000} {
		s := history.NewSteps()
		take(t, s, header())
		var tokens, web, slots, continued int64
		for i := range steps {
			bucket, code, w := int32(64<<(i%2)), int32(1+i%30), int32(1+i%7)
			take(t, s, part(uint64(i), bucket, code, w))
			tokens, web, slots, continued = tokens+int64(code+w), web+int64(w), slots+int64(bucket), continued+int64(i%2)
		}
		var h api.History
		s.Fill(&h)
		x := h.Steps
		if h.KnownSteps != uint64(steps) || s.CompleteSteps() != h.KnownSteps || sum(x.Steps) != uint64(steps) ||
			sum(x.Tokens) != tokens ||
			sum(x.Sources[1]) != web || sum(x.Slots) != slots ||
			sum(x.Continued) != continued || sum(x.Buckets[0]) != uint64(steps+1)/2 || sum(x.Pieces) != 2*int64(steps) ||
			sum(h.Lengths) != 2*int64(steps) {
			t.Fatalf("%d steps: %+v", steps, x)
		}
		if len(x.First) > 1024 || steps > 1024 && len(x.First) < 512 {
			t.Errorf("%d steps in %d points", steps, len(x.First))
		}
		next := uint64(0)
		for i, first := range x.First {
			if first != next || x.Steps[i] > x.Width || x.Steps[i] < x.Width && i < len(x.First)-1 {
				t.Fatalf("%d steps: point %d begins at %d with %d steps of %d", steps, i, first, x.Steps[i], x.Width)
			}
			next = first + x.Steps[i]
		}
		if n := len(h.RecentSteps.First); n != min(steps, 600) || h.RecentSteps.Width != 1 || n > 0 &&
			h.RecentSteps.First[n-1] != uint64(steps-1) {
			t.Errorf("%d steps: %d of the newest", steps, n)
		}
		for i := range h.RecentSteps.First {
			if h.RecentSteps.Buckets[0][i]+h.RecentSteps.Buckets[1][i] != 1 || h.RecentSteps.Sources[0][i] > 30 {
				t.Fatalf("%d steps: the newest but %d: %v of each bucket, %d tokens of code", steps, i, h.RecentSteps.Buckets,
					h.RecentSteps.Sources[0][i])
			}
		}
		for _, list := range []int{len(x.Steps), len(x.Slots), len(x.Tokens), len(x.Pieces), len(x.Sources[0]),
			len(x.Targets[1]), len(x.P10), len(x.P50), len(x.P90), len(x.Buckets[1])} {
			if list != len(x.First) {
				t.Errorf("%d steps: a list of %d beside %d points", steps, list, len(x.First))
			}
		}
	}
}

// Ages are in documents, for the oldest piece of a step and for the oldest document that a later step needs.
func TestSteps_AgesInDocuments(t *testing.T) {
	h := planrecord.Header{Run: "r", Sources: []plan.SourceBegin{{Name: "docs", Start: 1}}}
	h.Config.Packing.Buckets = []int{64}
	s := history.NewSteps()
	take(t, s, h)
	for i := range uint64(3) {
		row := []packonline.Piece{{Doc: 10 + i, Length: 5}, {Doc: 20, Length: 5}}
		take(t, s, planrecord.StepPart{Step: plan.Step{Index: i, Bucket: 64, Rows: [][]packonline.Piece{row},
			Cursor: plan.PositionAfter(100 * (i + 1)), LowWatermark: plan.PositionBefore(8)}, Parts: 1})
	}
	var out api.History
	s.Fill(&out)
	if !slices.Equal(out.RecentSteps.Age, []uint64{90, 189, 288}) ||
		!slices.Equal(out.RecentSteps.Waits, []uint64{93, 193, 293}) {
		t.Errorf("ages %v, waits %v", out.RecentSteps.Age, out.RecentSteps.Waits)
	}
}

// A step that is split into several records is counted once.
func TestSteps_MultiRecordStepCountsOnce(t *testing.T) {
	whole, parts := history.NewSteps(), history.NewSteps()
	take(t, whole, header())
	take(t, parts, header())
	for step := range uint64(5) {
		p := part(step, 128, 30, 40)
		p.Rows = append(p.Rows, part(step, 128, 10, 50).Rows...)
		take(t, whole, p)
		a, b := p, p
		a.Parts, b.Parts, b.Part = 2, 2, 1
		a.Rows, b.Rows = p.Rows[:1], p.Rows[1:]
		take(t, parts, a)
		if parts.CompleteSteps() != step {
			t.Error("half a step counts")
		}
		take(t, parts, b)
	}
	var a, b api.History
	whole.Fill(&a)
	parts.Fill(&b)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a.Steps, b.Steps)
	}
	if err := parts.Add(part(9, 128, 1, 1)); err == nil {
		t.Error("a step is missing, and no error was reported")
	}
	wrong := part(5, 128, 1, 1)
	wrong.Rows[0][0].Doc = plan.Ref(7, 1)
	if err := parts.Add(wrong); err == nil {
		t.Error("a step names a source that the run does not have, and no error was reported")
	}
}

// Target shares follow the configuration, the schedule and changes. Changes are marked.
func TestSteps_TargetsFollowScheduleAndChanges(t *testing.T) {
	h := header()
	h.Config.Mix.Schedule = []mixture.Point{{Tokens: 100, Ramp: 100, Weights: map[string]float64{"code": 3, "web": 1}}}
	s := history.NewSteps()
	take(t, s, h)
	if r := s.RecentShares(); len(r) > 0 {
		t.Errorf("recent shares before the first step: %v", r)
	}
	for i := range uint64(30) { // 10 tokens per step
		take(t, s, part(i, 64, 5, 5))
	}
	take(t, s, planrecord.Mix{Requester: "alice", Change: mixture.Change{Weights: map[string]float64{"code": 0, "web": 1,
		"math": 1}},
		SourceBegins: []plan.SourceBegin{{Name: "math"}}})
	take(t, s, part(30, 64, 5, 5))
	var out api.History
	s.Fill(&out)
	target := func(source, step int) float64 { return out.Steps.Targets[source][step] }
	for _, c := range []struct {
		step            int
		code, web, math float64
	}{{0, .25, .75, 0}, {8, .25, .75, 0}, {14, .5, .5, 0}, {20, .75, .25, 0}, {29, .75, .25, 0}, {30, 0, .5, .5}} {
		if a, b, m := target(0, c.step), target(1, c.step), target(2, c.step); math.Abs(a-c.code) > 1e-9 ||
			math.Abs(b-c.web) > 1e-9 || math.Abs(m-c.math) > 1e-9 {
			t.Errorf("step %d: %v %v %v, want %v", c.step, a, b, m, c)
		}
	}
	if want := []api.Mark{{Step: 30, Kind: "weights", Text: "weights code 0, math 1, web 1 by alice"}}; !slices.Equal(
		out.Marks, want) {
		t.Errorf("marks %+v", out.Marks)
	}
	if r := s.RecentShares(); math.Abs(r["code"]-.5) > 1e-9 || r["math"] != 0 {
		t.Errorf("recent %v", r)
	}
}

// A point of the schedule at the end of a source applies after the last step with tokens of the source, and not after
// an earlier step without them.
func TestSteps_SourceEndsAfterItsLastTokens(t *testing.T) {
	h := header()
	h.Config.Sources = map[string]mixture.Source{"code": {Weight: 1}, "web": {Weight: 0}}
	h.Config.Mix.Schedule = []mixture.Point{{After: "code", Weights: map[string]float64{"code": 0, "web": 1}}}
	with, without := []int32{5, 5}, []int32{0, 10}
	for _, x := range []struct {
		name   string
		counts [][]int32 // of a source and of the other one, for 1, 20, ... steps
		steps  []int
		end    bool
		last   int // last step with tokens of the source, or the last one if its end is not known yet
	}{
		{"a step between", [][]int32{with, without, with, without}, []int{10, 1, 10, 30}, false, 20},
		{"many steps between", [][]int32{with, without, with, without}, []int{10, 40, 10, 30}, false, 59},
		{"too few steps after it", [][]int32{with, without}, []int{10, 15}, false, 24},
		{"and then the end of the run", [][]int32{with, without}, []int{10, 15}, true, 9},
		{"with the last step", [][]int32{with}, []int{10}, true, 9},
		{"in more steps than points", [][]int32{with, without, with, without}, []int{3000, 40, 1000, 2000}, false, 4039},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := history.NewSteps()
			take(t, s, h, planrecord.SealSource{Source: 0, Last: 7})
			step := uint64(0)
			for i, counts := range x.counts {
				for range x.steps[i] {
					p := part(step, 64, counts[0], counts[1])
					if counts[0] == 0 {
						p.Rows[0] = p.Rows[0][1:]
					}
					take(t, s, p)
					step++
				}
			}
			if x.end {
				take(t, s, planrecord.End{Steps: step})
			}
			var out api.History
			s.Fill(&out)
			for _, series := range []api.StepSeries{out.Steps, out.RecentSteps} {
				for i, first := range series.First {
					want := 0.0
					if first+series.Steps[i]-1 > uint64(x.last) {
						want = 1
					}
					if got := series.Targets[1][i]; got != want {
						t.Fatalf("steps %d to %d of %d: target %v of the other source, want %v", first, first+series.Steps[i]-1,
							step, got, want)
					}
				}
			}
		})
	}
}

// In a run with shares of tokens with a loss, the tokens of the sources are these.
func TestSteps_SharesOfLossTokens(t *testing.T) {
	h := header()
	h.Config.Mix.Share = mixture.ShareLossTokens
	s := history.NewSteps()
	take(t, s, h)
	for i := range uint64(10) {
		whole := part(i, 64, 30, 20)
		whole.Masked, whole.SourceLossTokens = 40, []int64{2, 8}
		a, b := whole, whole
		a.Parts, b.Parts, b.Part, b.Rows, b.SourceLossTokens = 2, 2, 1, nil, []int64{}
		take(t, s, a, b)
	}
	var out api.History
	s.Fill(&out)
	if r := s.RecentShares(); out.ShareUnit != mixture.ShareLossTokens || sum(out.Steps.Sources[0]) != 20 ||
		sum(out.Steps.Sources[1]) != 80 || sum(out.Steps.Tokens) != 500 || r["code"] != .2 || r["web"] != .8 {
		t.Errorf("%+v, recent shares %v", out.Steps, r)
	}
	wrong := part(10, 64, 3, 2)
	wrong.SourceLossTokens = []int64{1, 1, 3}
	if err := s.Add(wrong); err == nil {
		t.Error("a step names three sources of two, and no error was reported")
	}
}

// A change during a ramp ends the ramp at its present value.
func TestSteps_MixtureChangeEndsRamp(t *testing.T) {
	h := header()
	h.Config.Mix.Schedule = []mixture.Point{{Tokens: 10, Ramp: 1000, Weights: map[string]float64{"code": 3, "web": 1}}}
	s := history.NewSteps()
	take(t, s, h, part(0, 64, 5, 5), part(1, 64, 5, 5),
		planrecord.Mix{Change: mixture.Change{Weights: map[string]float64{"code": 1, "web": 1}}}, part(2, 64, 5, 5),
		part(3, 64, 5, 5))
	var out api.History
	s.Fill(&out)
	if a := out.Steps.Targets[0]; a[1] <= .25 || a[2] != .5 || a[3] != .5 {
		t.Errorf("targets %v", a)
	}
}

// Quantiles of lengths are accurate to the width of their bin.
func TestSteps_LengthQuantilesWithinBinWidth(t *testing.T) {
	s := history.NewSteps()
	take(t, s, header())
	take(t, s, part(0, 128, 1, 100))
	take(t, s, part(1, 128, 1, 100))
	var out api.History
	s.Fill(&out)
	if p := out.RecentSteps; p.P10[0] != 1 || p.P90[0] < 65 || p.P90[0] > 128 {
		t.Errorf("%+v", p)
	}
}

// Samples of a day and of a month, one per second, need bounded memory, and their totals are complete.
func TestTimes_MemoryIsBoundedOverMonth(t *testing.T) {
	for _, days := range []int{1, 30} {
		x := history.NewTimes()
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		seconds := days * 86400
		for i := range seconds + 1 {
			s := history.Sample{At: at.Add(time.Duration(i) * time.Second), Planned: uint64(i), Tokens: 1000 * int64(i),
				Documents: 10 * int64(i), Published: uint64(11 * i), Bytes: 4000, Split: int64(i),
				Health: diagnosis.Running, IsWaiting: i%4 == 0}
			if i%50_000 == 40_000 {
				s.Health = diagnosis.Failing
			}
			x.Add(s)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
			t.Errorf("%d days take %d bytes", days, grown)
		}
		var h api.History
		x.Fill(&h)
		p := h.Times
		var covered, tokens float64
		last := at
		for i := range p.At {
			d := p.At[i].Sub(last).Seconds()
			covered, tokens, last = covered+d, tokens+d*p.Tokens[i], p.At[i]
			if math.Abs(p.Tokens[i]-1000) > 1e-6 || math.Abs(p.Bytes[i]-4000) > 1e-6 || math.Abs(p.Split[i]-.1) > 1e-9 ||
				p.Published[i] < 10.99 {
				t.Fatalf("point %d: %v tokens, %v bytes, %v split a second", i, p.Tokens[i], p.Bytes[i], p.Split[i])
			}
		}
		if n := len(p.At); n > 1024 || n < 512 || covered != float64(seconds) || math.Abs(tokens-1000*float64(seconds)) > 1 ||
			last != at.Add(time.Duration(seconds)*time.Second) {
			t.Errorf("%d days: %d points, %v s, %v tokens, up to %v", days, n, covered, tokens, last)
		}
		failing := 0
		for _, health := range p.Health {
			if health == string(diagnosis.Failing) {
				failing++
			}
		}
		if want := (seconds-40_000)/50_000 + 1; failing != want {
			t.Errorf("%d points failing, want %d: the worst moment of each counts", failing, want)
		}
		if m := h.RecentTimes; len(m.At) != 600 || m.Seconds != 1 {
			t.Errorf("the last minutes have %d points of %v s", len(m.At), m.Seconds)
		}
	}
}

// Counters that decrease, for example after a takeover, cause no negative rates. A sample that is not later than the
// last one is ignored.
func TestTimes_DecreasingCountersGiveNoNegativeRates(t *testing.T) {
	x, at := history.NewTimes(), time.Unix(1000, 0)
	for i, s := range []history.Sample{{Tokens: 100}, {Tokens: 40}, {Tokens: 60}} {
		s.At = at.Add(time.Duration(i) * time.Second)
		x.Add(s)
	}
	x.Add(history.Sample{At: at, Tokens: 1000})
	var h api.History
	x.Fill(&h)
	if !slices.Equal(h.Times.Tokens, []float64{0, 20}) {
		t.Errorf("%v tokens a second", h.Times.Tokens)
	}
}
